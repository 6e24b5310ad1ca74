/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What a load report does to the unit's state. The unit's backlog as the agent knows it holds every
 * request that has come to it, whoever sent it; what this switch has placed but the agent had not yet
 * seen is added. That is placed - adrift - arrived, cumulative counters all, so a lost report costs
 * nothing. It must be among what was placed lately; what exceeds that was lost on the way and goes
 * adrift, or it would count for ever. Where it is negative, others send to this unit too (another
 * switch of the group, connections of many requests), and adrift follows them: what the agent saw
 * then stands alone.
 */
#pragma once

#include "headroom.h"
#include "report.h"
#include "server.h"

/* A flow placed longer ago, and unseen by the unit, is lost. 67 ms: longer than a report's delay and
 * the wire within a site; shorter, and slow reports would hide requests that are on the way. */
#define SPW_ON_THE_WAY_BEATS 64

/* What was placed within the last one to two windows. */
SPW_INLINE __u32 spw_placed_lately(struct spw_unit_counts *counts, __u32 beat)
{
	if (beat - counts->mark_beat >= SPW_ON_THE_WAY_BEATS) {
		counts->placed_before = counts->placed_at_mark;
		counts->placed_at_mark = counts->placed;
		counts->mark_beat = beat;
	}
	return counts->placed - counts->placed_before;
}

/* reborn: the report's boot id is not that of the unit's last one, so its counters began anew. */
SPW_INLINE __u32 spw_on_the_way(struct spw_unit_counts *counts, const struct spw_report *report, int reborn,
				__u32 beat)
{
	__u32 arrived = report->completed + report->queue;
	__u32 lately = spw_placed_lately(counts, beat);
	__s32 missing = (__s32)(counts->placed - counts->adrift - arrived);

	if (reborn || missing < 0) {
		counts->adrift = counts->placed - arrived;
		return 0;
	}
	if ((__u32)missing > lately) {
		counts->adrift += (__u32)missing - lately;
		return lately;
	}
	return (__u32)missing;
}

/* What the capacities make of the slots of units with more capacity than this one, ns; 0: there is none. With
 * `learnt`, only of slots that are no guesses. */
SPW_INLINE __u32 spw_slot_by_capacity(const struct spw_server *server, __u32 unit, __u32 learnt)
{
	__u64 weight = server->unit[unit].weight, most = 0;

#pragma GCC unroll 1
	for (__u32 u = 0; u < SPW_UNITS_PER_SERVER; u++) {
		__u64 work = (__u64)server->load[u].slot_ns * server->unit[u].weight;
		__u64 counts = spw_less(weight, server->unit[u].weight) &
			       (1 - (learnt & server->load[u].flags / SPW_REPORT_GUESSED));

		most = spw_headroom_max(most, work * counts);
	}
	most /= weight | spw_is_zero(weight);
	return (__u32)spw_select(spw_less(most, SPW_SLOT_MAX_NS), most, SPW_SLOT_MAX_NS);
}

/* Units move the share clock at the pace of all of them together, slightly faster, so that a lead fades. */
SPW_INLINE void spw_set_share_step(struct spw_server *server)
{
	__u64 rate = 0; /* requests in 2^40 ns */

#pragma GCC unroll 1
	for (__u32 u = 0; u < SPW_UNITS_PER_SERVER; u++) {
		__u64 slot = server->load[u].share_slot_ns;
		__u64 up = spw_is_zero(server->unit[u].status ^ SPW_UNIT_UP) & (1 - spw_is_zero(slot));

		rate += (1ULL << 40) / (slot | spw_is_zero(slot)) * up;
	}
	rate -= rate / 20;
	server->share_step_ns = (__u32)((1ULL << 40) / (rate | spw_is_zero(rate)));
}

SPW_INLINE void spw_load_report(struct spw_server *server, __u32 unit, const struct spw_report *report,
				int reborn, __u64 now_ns)
{
	__u32 u = unit & (SPW_UNITS_PER_SERVER - 1), beat = spw_beats(now_ns), on_the_way, slot;
	struct spw_unit_counts *counts = &server->counts[u];
	struct spw_unit_load *load = &server->load[u];

	counts->placed += __sync_lock_test_and_set(&load->assigned, 0);
	counts->completed = report->completed;
	load->level = report->level;
	load->flags = report->flags;
	load->queue = report->queue;
	load->latency_us = report->latency_us;
	load->base_us = report->base_us;
	load->tail_us = report->tail_us;

	/*
	 * A unit whose agent can only guess the slot, because requests hardly ever waited there: what a lone
	 * request took is a fraction of the slot where CPU time is rationed, and a burst would be sent there.
	 * The capacities tell more.
	 */
	slot =
	    (__u32)spw_select(spw_less(report->slot_ns, SPW_SLOT_MAX_NS), report->slot_ns, SPW_SLOT_MAX_NS);
	if (report->flags & SPW_REPORT_GUESSED)
		slot = (__u32)spw_headroom_max(slot, spw_slot_by_capacity(server, u, 1));
	load->slot_ns = slot;
	load->knee_us = report->knee_us + spw_headroom_beyond(slot, report->slot_ns) / 1000;
	load->share_slot_ns = (__u32)spw_headroom_max(slot, spw_slot_by_capacity(server, u, 0));
	spw_set_share_step(server);

	on_the_way = spw_on_the_way(counts, report, reborn, beat);
	load->drained_ns =
	    now_ns - spw_headroom_age(report) + (__u64)report->backlog_us * 1000 + (__u64)on_the_way * slot;
	load->report_beat = beat ? beat : 1;
}
