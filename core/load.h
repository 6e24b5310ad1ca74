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

/* What the server's other units say at a report of one of them. */
struct spw_others {
	/* Slot times weight, the most of those units that have another capacity; and of those that have more
	 * and whose slots are no guesses. */
	__u64 most_work, most_work_learnt;
	__u64 share_rate; /* their requests in 2^40 ns, if up */
};

/* One pass, and no division in it: packets wait meanwhile. */
SPW_INLINE void spw_look_at_others(const struct spw_server *server, __u32 unit, struct spw_others *others)
{
	__u64 weight = server->unit[unit].weight, most = 0, most_learnt = 0, rate = 0;

#pragma GCC unroll 1
	for (__u32 u = 0; u < SPW_UNITS_PER_SERVER; u++) {
		const struct spw_unit_config *config = &server->unit[u];
		const struct spw_unit_load *load = &server->load[u];
		__u64 work, learnt, counts, differs, more;

		/* Not ended after the last one: Linux 6.1's verifier refuses a bound that varies. */
		if (config->status == SPW_UNIT_ABSENT)
			continue;
		work = (__u64)load->slot_ns * config->weight;
		differs = 1 - spw_is_zero(weight ^ config->weight);
		more = spw_less(weight, config->weight);
		learnt = 1 - (load->flags / SPW_REPORT_GUESSED & 1);
		counts = spw_is_zero(config->status ^ SPW_UNIT_UP) & (1 - spw_is_zero(u ^ unit));
		most = spw_headroom_max(most, work * differs);
		most_learnt = spw_headroom_max(most_learnt, work * learnt * more);
		rate += load->share_rate * counts;
	}
	others->most_work = most;
	others->most_work_learnt = most_learnt;
	others->share_rate = rate;
}

/* What the capacities make of the slots of other units, ns; 0: there is none of another capacity. */
SPW_INLINE __u32 spw_slot_by_capacity(const struct spw_server *server, __u32 unit, __u64 most_work)
{
	__u64 weight = server->unit[unit].weight, slot;

	if (!most_work)
		return 0;
	slot = most_work / (weight | spw_is_zero(weight));
	return (__u32)spw_select(spw_less(slot, SPW_SLOT_MAX_NS), slot, SPW_SLOT_MAX_NS);
}

/* What a request to the unit counts on the share clock: its slot, or what the capacities make of another's if
 * that is more, so that shares are by capacity. A quota that is used up late in its period is hardly seen
 * in the slot of its unit. Equal capacities are what a pool file has that says nothing of them, and tell
 * nothing. Units move the server's clock at the pace of all of them together, slightly faster, so that a lead
 * fades. */
SPW_INLINE void spw_set_shares(struct spw_server *server, __u32 unit, __u32 slot, __u64 others_rate)
{
	struct spw_unit_load *load = &server->load[unit];
	__u64 rate = others_rate;

	/* Anew each time, so that what two CPUs or another build left there does not last. */
	load->share_slot_ns = slot;
	load->share_rate = (1ULL << 40) / (slot | spw_is_zero(slot)) * (1 - spw_is_zero(slot));
	rate += load->share_rate * spw_is_zero(server->unit[unit].status ^ SPW_UNIT_UP);
	rate -= rate / 20;
	server->share_step_ns = (__u32)((1ULL << 40) / (rate | spw_is_zero(rate)));
}

SPW_INLINE void spw_load_report(struct spw_server *server, __u32 unit, const struct spw_report *report,
				int reborn, __u64 now_ns)
{
	__u32 u = unit & (SPW_UNITS_PER_SERVER - 1), beat = spw_beats(now_ns), on_the_way, slot;
	struct spw_unit_counts *counts = &server->counts[u];
	struct spw_unit_load *load = &server->load[u];
	struct spw_others others;

	spw_look_at_others(server, u, &others);
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
		slot =
		    (__u32)spw_headroom_max(slot, spw_slot_by_capacity(server, u, others.most_work_learnt));
	load->slot_ns = slot;
	load->knee_us = report->knee_us + spw_headroom_beyond(slot, report->slot_ns) / 1000;
	spw_set_shares(server, u,
		       (__u32)spw_headroom_max(slot, spw_slot_by_capacity(server, u, others.most_work)),
		       others.share_rate);

	on_the_way = spw_on_the_way(counts, report, reborn, beat);
	load->drained_ns =
	    now_ns - spw_headroom_age(report) + (__u64)report->backlog_us * 1000 + (__u64)on_the_way * slot;
	load->report_beat = beat ? beat : 1;
}
