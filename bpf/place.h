/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Placement: which unit a packet's flow is on. Every choice is core/policy.h's; here are the tables
 * around it.
 *
 *   TCP SYN       flow's live entry, else the handshake that it repeats, else the policies
 *   TCP other     flow's entry, else owner; a half-open entry only for what proves its handshake
 *   UDP affinity  flow's entry, else the policies, and an entry; owner if it was refused one
 *   UDP none      the policies, every packet
 *
 * What the policies choose is the owner, or must be remembered: a *deviation*. It is a privilege: where
 * remembering would cost others (the flow's half-open bucket is young, its buckets of the flow table are
 * full, entries are written too fast) a new flow stays on its slot's owner, which needs no memory. So under
 * any flood no established flow moves, and new TCP flows connect as with a stateless ring (ARCHITECTURE.md).
 * A SYN moves nothing: what it reserves (a half-open entry) holds for packets that go on from its sequence
 * number.
 *
 * A server whose units are all failing, draining or down passes its new flows on: to the flow's other
 * slots, then to its deputy, and if all of these are failing, too, they are sent as if none were. An owner
 * that can take no new flow is deviated from under a flood, too, then with a word that may be overwritten.
 *
 * Failure modes: a handshake slower than 1.9 s that deviated, during a flood, falls back to the owner, who
 * resets it; established flows are untouched.
 */
#pragma once

#include "choose.h"
#include "flow_entries.h"
#include "maps.h"
#include "packet.h"

/* A flow that is on a slot's owner while the slot moves gets an entry, so that the slot need not wait for it.
 * Without a place, the slot waits. */
SPW_CALL void stay_on_owner(struct placement *at, __u16 owner, enum spw_flow_state state)
{
	if (!insert_flow(at, owner, state))
		at->slot->entryless_tick = spw_slot_tick(spw_ticks(placement_now(at)));
}

/* Where flows of this slot without an entry are: the owner; when it died, whoever follows it. ends: the
 * packet is FIN or RST, after which nothing needs to be kept. */
SPW_INLINE __u16 ring_unit(struct placement *at, int ends)
{
	__u16 owner = at->slot->owner, next = at->slot->next;

	at->count->placed_on_ring++;
	if (owner == next)
		return owner;
	if (unit_is_alive(owner)) {
		if (!ends)
			stay_on_owner(at, owner, SPW_FLOW_OPEN);
		return owner;
	}
	at->count->flows_replaced++;
	return next;
}

SPW_INLINE struct spw_half_open *half_open_bucket(__u64 hash)
{
	__u32 index = spw_half_open_index(hash);

	return bpf_map_lookup_elem(&half_open, &index);
}

/* Word `index` of the bucket. */
SPW_INLINE __u64 *half_open_word(struct spw_half_open *bucket, int index)
{
	SPW_OPAQUE(index);
	return &bucket->word[index & (SPW_HALF_OPEN_WAYS - 1)];
}

SPW_INLINE __u16 half_open_stamp(struct placement *at)
{
	return spw_half_open_stamp(placement_now(at));
}

/* Fills at->word_found and at->word_room for the handshake with this number. */
SPW_CALL void look_up_handshake(struct placement *at, struct spw_half_open *bucket, __u32 isn)
{
	int found = spw_half_open_find(bucket, at->hash, isn), room = found;

	if (found < 0 || found >= SPW_HALF_OPEN_KEPT_WAYS) {
		room = spw_half_open_room(bucket, half_open_stamp(at));
		if (room < 0 && ignores_pressure)
			room = 0;
	}
	at->word_found = found;
	at->word_room = room;
}

/* Unit in the handshake's own word, or SPW_NO_UNIT. */
SPW_INLINE __u16 handshake_unit(struct placement *at, struct spw_half_open *bucket)
{
	if (at->word_found < 0)
		return SPW_NO_UNIT;
	return spw_half_open_unit(*half_open_word(bucket, at->word_found), half_open_stamp(at));
}

/* After look_up_handshake. keeps: in the room that was found, if there is one. */
SPW_CALL void remember_handshake(struct placement *at, struct spw_half_open *bucket, __u16 unit, __u32 isn,
				 int keeps)
{
	__u16 stamp = half_open_stamp(at);
	__u64 fresh = spw_half_open_word(at->hash, isn, unit, stamp);
	int found = at->word_found, room = keeps ? at->word_room : -1;

	if (found >= 0 && (room < 0 || found == room)) {
		*half_open_word(bucket, found) = fresh;
		return;
	}
	if (found >= 0)
		*half_open_word(bucket, found) = 0;
	if (room < 0 || !spw_half_open_keep(half_open_word(bucket, room), fresh, stamp))
		spw_half_open_push(bucket, fresh);
}

/* A handshake stays on the ring, or on the unit of the connection before it. */
SPW_CALL __u16 keep_handshake(struct placement *at, struct spw_half_open *bucket, __u16 unit, __u32 isn)
{
	keep_on_ring(at, unit);
	if (slot_is_moved(at) && unit == at->slot->owner)
		at->slot->entryless_tick = spw_slot_tick(spw_ticks(placement_now(at)));
	remember_handshake(at, bucket, unit, isn, 0);
	return unit;
}

/* Of a flow without a settled entry, or with one that is closing, on `before`; else SPW_NO_UNIT. */
SPW_CALL __u16 place_handshake(struct placement *at, struct spw_half_open *bucket, __u16 before, __u32 isn)
{
	__u16 stay = before == SPW_NO_UNIT ? home_of(at) : before, unit;
	int keeps = 1;

	look_up_handshake(at, bucket, isn);
	unit = handshake_unit(at, bucket);
	/* Elsewhere than on the ring its packets would not follow, without an entry. */
	if (unit != SPW_NO_UNIT && (unit == stay || before != SPW_NO_UNIT) && takes_new_flows(at, unit)) {
		at->count->syn_repeated++;
		return unit;
	}
	if ((at->word_room < 0 || !rate_allows(at)) && takes_new_flows(at, stay))
		return keep_handshake(at, bucket, stay, isn);
	unit = choose(at);
	if (unit == SPW_NO_UNIT)
		return unit;
	if (unit == stay && (before != SPW_NO_UNIT || !slot_is_moved(at)))
		keeps = 0; /* on the ring */
	else if (before == SPW_NO_UNIT && !insert_flow(at, unit, SPW_FLOW_HALF_OPEN))
		return keep_handshake(at, bucket, stay, isn);
	remember_handshake(at, bucket, unit, isn, keeps);
	return unit;
}

/* A SYN of a flow whose half-open entry says `unit`. Its number may be another: the client tries again, or
 * one of the two is forged. Then each has a word, or the newer one stays on the ring. */
SPW_CALL __u16 go_on_handshake(struct placement *at, struct spw_half_open *bucket, __u16 unit, __u32 isn)
{
	__u16 home = home_of(at), known;
	int on_ring;

	look_up_handshake(at, bucket, isn);
	known = handshake_unit(at, bucket);
	on_ring = known == home || (known != unit && at->word_room < 0);
	if (on_ring && home != unit && takes_new_flows(at, home))
		unit = home;
	at->count->syn_repeated++;
	remember_handshake(at, bucket, unit, isn, unit != home || !on_ring);
	return unit;
}

SPW_INLINE __u16 place_syn(struct placement *at, __u32 isn)
{
	struct spw_half_open *bucket = half_open_bucket(at->hash);
	__u64 *entry = tcp_flow_entry(at);
	__u16 before = SPW_NO_UNIT;

	if (!bucket)
		return SPW_NO_UNIT;
	if (entry) {
		__u64 seen = *entry;
		__u16 unit = spw_entry_unit(seen);
		enum spw_flow_state state = spw_entry_state(seen);

		if (!unit_is_alive(unit)) {
			free_entry(entry, seen);
		} else if (state == SPW_FLOW_CLOSING) {
			before = unit;
		} else if (state != SPW_FLOW_HALF_OPEN) {
			at->count->syn_repeated++; /* late; or forged, and must move nothing */
			return unit;
		} else if (takes_new_flows(at, unit)) {
			touch_entry(at, entry, seen);
			return go_on_handshake(at, bucket, unit, isn);
		} else {
			free_entry(entry, seen);
		}
	}
	return place_handshake(at, bucket, before, isn);
}

/* A pure ACK this many ticks after FIN or RST shows that the flow goes on; sooner it may be the close's last.
 */
#define REOPEN_TICKS 2

/* By an entry that is half-open or closing. */
SPW_CALL __u16 place_unsettled(struct placement *at, __u64 *entry, __u64 seen, const struct tcp_bits *tcp)
{
	struct spw_half_open *bucket = half_open_bucket(at->hash);
	enum spw_flow_state then = tcp->fin_rst ? SPW_FLOW_CLOSING : SPW_FLOW_OPEN;
	__u32 tick = spw_ticks(placement_now(at));
	__u16 unit = spw_entry_unit(seen), proven = SPW_NO_UNIT;
	int found;

	if (!bucket)
		return ring_unit(at, 1);
	/* By index below, not by pointer: the verifier of Linux 6.1 does not see that who is proven has a
	 * word. */
	found = spw_half_open_proof(bucket, at->hash, tcp->sequence);
	if (found >= 0)
		proven = spw_half_open_unit(*half_open_word(bucket, found), half_open_stamp(at));
	if (spw_entry_state(seen) == SPW_FLOW_HALF_OPEN) {
		if (proven != unit) {
			/* Of another connection, which may be established on the owner: the slot waits for
			 * it. */
			if (!tcp->fin_rst && slot_is_moved(at))
				at->slot->entryless_tick = spw_slot_tick(tick);
			return ring_unit(at, 1);
		}
		change_entry(at, entry, seen, spw_entry_seen(spw_entry_in_state(seen, then), tick));
		*half_open_word(bucket, found) = 0;
	} else if (proven != SPW_NO_UNIT && proven != unit && unit_is_alive(proven)) {
		/* The ports are used again, and the next connection is elsewhere. */
		*half_open_word(bucket, found) = 0;
		if (proven == home_of(at) && !slot_is_moved(at))
			free_entry(entry, seen);
		else
			change_entry(at, entry, seen,
				     spw_flow_entry(spw_entry_tag(seen), proven, then, tick) |
					 (seen & SPW_FLOW_OVERFLOW));
		unit = proven;
	} else if (tcp->fin_rst) {
		touch_entry(at, entry, seen);
	} else if (tcp->data || proven == unit || spw_entry_idle(seen, tick) >= REOPEN_TICKS) {
		change_entry(at, entry, seen, spw_entry_seen(spw_entry_in_state(seen, SPW_FLOW_OPEN), tick));
	}
	at->count->placed_by_entry++;
	return unit;
}

SPW_INLINE __u16 place_established(struct placement *at, const struct tcp_bits *tcp)
{
	__u64 *entry = tcp_flow_entry(at), seen;
	__u16 unit;

	if (!entry)
		return ring_unit(at, tcp->fin_rst);
	seen = *entry;
	unit = spw_entry_unit(seen);
	if (!unit_is_alive(unit)) {
		free_entry(entry, seen);
		at->count->flows_replaced++;
		return ring_unit(at, tcp->fin_rst);
	}
	if (spw_entry_state(seen) != SPW_FLOW_OPEN)
		return place_unsettled(at, entry, seen, tcp);
	if (tcp->fin_rst)
		change_entry(
		    at, entry, seen,
		    spw_entry_seen(spw_entry_in_state(seen, SPW_FLOW_CLOSING), spw_ticks(placement_now(at))));
	else
		touch_entry(at, entry, seen);
	at->count->placed_by_entry++;
	return unit;
}

SPW_INLINE __u16 *refused_mark(__u64 hash)
{
	__u32 index = (__u32)(hash >> 13);

	SPW_OPAQUE(index);
	return &refused_tick[index & (REFUSED_MARKS - 1)];
}

/* 1 if `then`, a slot tick, is not longer ago than a flow of the service may be silent. */
SPW_INLINE int is_within_idle(struct placement *at, __u16 then)
{
	__u16 age = (__u16)(spw_slot_tick(spw_ticks(placement_now(at))) - then);

	return then != 0 && (age <= at->service->idle_ticks || age > 0xfff0);
}

/* A datagram's flow goes on without an entry. */
SPW_CALL void mark_refused(struct placement *at)
{
	*refused_mark(at->hash) = spw_slot_tick(spw_ticks(placement_now(at)));
}

SPW_CALL __u16 place_first_datagram(struct placement *at)
{
	__u16 home = home_of(at), unit;

	if (is_within_idle(at, *refused_mark(at->hash))) { /* it may be of an established flow */
		at->count->placed_on_ring++;
		if (slot_is_moved(at))
			stay_on_owner(at, home, SPW_FLOW_DATAGRAM);
		else if (!insert_flow(at, home, SPW_FLOW_DATAGRAM))
			mark_refused(at);
		return home;
	}
	if (!rate_allows(at) && takes_new_flows(at, home)) {
		keep_on_ring(at, home);
		mark_refused(at);
		return home;
	}
	unit = choose(at);
	if (unit == SPW_NO_UNIT || insert_flow(at, unit, SPW_FLOW_DATAGRAM) || !takes_new_flows(at, home))
		return unit;
	keep_on_ring(at, home);
	mark_refused(at);
	return home;
}

SPW_INLINE __u16 place_datagram(struct placement *at)
{
	/* A slot that has no flow with an entry spares the look-up. */
	__u64 *entry = at->slot->deviating_tick ? flow_entry(at->hash) : NULL;

	if (entry) {
		__u64 seen = *entry;
		__u16 unit = spw_entry_unit(seen);
		__u32 idle = spw_entry_idle(seen, spw_ticks(placement_now(at)));

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

/* For packets about a flow that are not of it (ICMP errors): looks, remembers nothing. */
SPW_INLINE __u16 place_quoted(struct placement *at)
{
	__u64 *entry = flow_entry(at->hash);

	if (entry && spw_entry_state(*entry) != SPW_FLOW_HALF_OPEN && unit_is_alive(spw_entry_unit(*entry)))
		return spw_entry_unit(*entry);
	return at->slot->owner;
}
