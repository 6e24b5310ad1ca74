/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Placement of UDP with affinity: by the flow's entry, else as its first datagram. A flow that was refused an
 * entry goes on at its slot's owner, and leaves a mark there, so that what follows it is not taken for a new
 * flow.
 */
#pragma once

#include "place.h"

SPW_INLINE __u16 *refused_mark(const struct placement *at)
{
	__u32 line =
	    at->service->service * SPW_REFUSED_LINES + ((__u32)(at->hash >> 13) & (SPW_REFUSED_LINES - 1));
	__u32 mark = (__u32)(at->hash >> 16) & (SPW_REFUSED_MARKS - 1);
	struct spw_refused *marks = bpf_map_lookup_elem(&refused, &line);

	SPW_OPAQUE(mark);
	return marks ? &marks->tick[mark & (SPW_REFUSED_MARKS - 1)] : NULL;
}

/* A datagram's flow goes on without an entry. */
SPW_CALL void mark_refused(struct placement *at)
{
	__u16 *mark = refused_mark(at);

	if (mark)
		*mark = spw_slot_tick(placement_tick(at));
}

/* 1 if it may be of a flow that goes on without an entry. */
SPW_CALL int may_be_refused(struct placement *at)
{
	__u16 *mark = refused_mark(at);
	__u16 age;

	if (!mark || *mark == 0)
		return 0;
	age = (__u16)(spw_slot_tick(placement_tick(at)) - *mark);
	return age <= at->service->idle_ticks || age > 0xfff0;
}

SPW_CALL __u16 place_first_datagram(struct placement *at)
{
	__u16 home = home_of(at), unit;

	if (may_be_refused(at) && unit_answers(home)) { /* it may be of an established flow */
		at->count->placed_on_ring++;
		if (!(slot_is_moved(at)
			  ? stay_on_owner(at, home, SPW_FLOW_DATAGRAM)
			  : rate_allows(at) && insert_flow(at, home, SPW_FLOW_DATAGRAM, SPW_BUCKET_DATAGRAM)))
			mark_refused(at);
		return home;
	}
	read_choice_time(at);
	if (!rate_allows(at) && takes_new_flows(home)) {
		keep_on_ring(at, home);
		mark_refused(at);
		return home;
	}
	unit = choose(at);
	if (unit == SPW_NO_UNIT || insert_flow(at, unit, SPW_FLOW_DATAGRAM, SPW_BUCKET_DATAGRAM) ||
	    !takes_new_flows(home))
		return unit;
	keep_on_ring(at, home);
	mark_refused(at);
	return home;
}

SPW_INLINE __u16 place_datagram(struct placement *at)
{
	/* A slot that has no flow with an entry spares the look-up. */
	__u64 seen = 0, *entry = at->slot->deviating_tick ? flow_entry(at->hash, &seen) : NULL;

	if (entry) {
		__u16 unit = spw_entry_unit(seen);
		__u32 idle = spw_entry_idle(seen, placement_tick(at));

		if (idle <= at->service->idle_ticks && unit_is_alive(unit)) {
			touch_entry(at, entry, seen);
			at->count->placed_by_entry++;
			return unit;
		}
		if (idle <= at->service->idle_ticks)
			at->count->flows_replaced++;
		free_entry(entry, seen);
	}
	return place_first_datagram(at);
}
