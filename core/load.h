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
SPW_INLINE __u32 spw_placed_lately(struct spw_unit_load *load, __u32 beat)
{
	if (beat - load->mark_beat >= SPW_ON_THE_WAY_BEATS) {
		load->placed_before = load->placed_at_mark;
		load->placed_at_mark = load->placed;
		load->mark_beat = beat;
	}
	return load->placed - load->placed_before;
}

/* reborn: the report's boot id is not that of the unit's last one, so its counters began anew. */
SPW_INLINE __u32 spw_on_the_way(struct spw_unit_load *load, const struct spw_report *report, int reborn,
				__u32 beat)
{
	__u32 arrived = report->completed + report->queue;
	__u32 lately = spw_placed_lately(load, beat);
	__s32 missing = (__s32)(load->placed - load->adrift - arrived);

	if (reborn || missing < 0) {
		load->adrift = load->placed - arrived;
		return 0;
	}
	if ((__u32)missing > lately) {
		load->adrift += (__u32)missing - lately;
		return lately;
	}
	return (__u32)missing;
}

SPW_INLINE void spw_load_report(struct spw_unit_load *load, const struct spw_report *report, int reborn,
				__u64 now_ns)
{
	__u32 beat = spw_beats(now_ns), on_the_way;

	load->placed += __sync_lock_test_and_set(&load->assigned, 0);
	load->level = report->level;
	load->flags = report->flags;
	load->queue = report->queue;
	load->latency_us = report->latency_us;
	load->completed = report->completed;
	load->base_us = report->base_us;
	load->slot_ns = report->slot_ns;
	load->knee_us = report->knee_us;
	on_the_way = spw_on_the_way(load, report, reborn, beat);
	load->drained_ns = now_ns - spw_headroom_age(report) + (__u64)report->backlog_us * 1000 +
			   (__u64)on_the_way * report->slot_ns;
	load->report_beat = beat ? beat : 1;
}
