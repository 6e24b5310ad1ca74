/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A server as the policies see it: what spillwayd configured of its units and what their load
 * reports said last. One map entry; the two halves have one writer each.
 */
#pragma once

#include "types.h"

/* Allowed moves: absent <-> up; up <-> draining; up, draining <-> down; draining, down -> absent. */
enum spw_unit_status {
	SPW_UNIT_ABSENT = 0,
	SPW_UNIT_UP,
	SPW_UNIT_DRAINING, /* keeps its flows, gets no new ones */
	SPW_UNIT_DOWN,	   /* its flows are placed anew */
};

enum spw_unit_kind {
	SPW_KIND_CPU = 0,
	SPW_KIND_SMARTNIC,
	SPW_KIND_GPU,
	SPW_KIND_FPGA,
	SPW_KIND_SSD,
	SPW_KIND_OTHER,
};

struct spw_unit_config { /* writer: spillwayd */
	__u8 status;
	__u8 kind;
	__u16 weight; /* capacity, scaled by spillwayd so that ratios within the pool hold */
};
SPW_ASSERT_SIZE(struct spw_unit_config, 4);

/*
 * What is known of a unit's load. Writer: the data plane, from load reports (core/load.h) and its own
 * choices. One cache line.
 */
struct spw_unit_load {
	__u64 drained_ns;  /* headroom: when the unit will have worked off its backlog */
	__u64 share_ns;	   /* headroom: up to where on the server's share clock it has had its share */
	__u32 report_beat; /* when the last report came; 0: never */
	__u32 assigned;	   /* flows placed here since that report */
	__u32 base_us;	   /* base, slot, knee and tail: core/report.h */
	__u32 slot_ns;
	__u32 knee_us;
	__u32 tail_us;
	__u32 share_slot_ns; /* what a request counts on the share clock */
	__u32 latency_us;    /* of its requests, smoothed; 0: not known */
	__u16 queue;	     /* requests in the unit when it reported */
	__u8 level;
	__u8 flags; /* SPW_REPORT_BUSY and the other bits of core/report.h */
	__u32 pad;
	__u64 share_rate; /* by share_slot_ns, in 2^40 ns; was padding, 0, in the first maps of this layout */
};
SPW_ASSERT_SIZE(struct spw_unit_load, 64);

/* What core/load.h compares two reports by. Writer: the data plane, at a report. */
struct spw_unit_counts {
	__u32 completed; /* as reported */
	__u32 placed;	 /* flows placed here up to the last report, modulo 2^32 */
	__u32 adrift;	 /* of placed, those that came neither here nor are on the way; may be negative */
	__u32 mark_beat; /* core/load.h: when placed_at_mark was taken */
	__u32 placed_at_mark;
	__u32 placed_before; /* at the mark before: what was placed since may still be on the way */
	__u32 pad[2];
};
SPW_ASSERT_SIZE(struct spw_unit_counts, 32);

/* Of a failing unit, core/health.h. Writer: the data plane. */
struct spw_unit_health {
	__u32 out_beat;	  /* when it was taken out */
	__u32 probe_beat; /* when it got its last new flow since */
};

struct spw_server {
	struct spw_unit_config unit[SPW_UNITS_PER_SERVER]; /* in order of priority */
	__u32 silent_beats;  /* a unit unheard for longer is silent; writer: spillwayd */
	__u32 draws;	     /* weighted draws made so far; writer: the data plane, races harmless */
	__u32 pressure;	     /* headroom's average, core/headroom.h; writer: the data plane, races harmless */
	__u32 share_step_ns; /* by which a request moves the share clock */
	__u64 share_ns;	     /* headroom's share clock; writer: the data plane, races harmless */
	__u32 failing; /* bit u: unit u is said to fail; writers: data plane, spillwayd; core/health.h */
	__u32 pool;    /* entry in the `pools` map; writer: spillwayd */
	struct spw_unit_load load[SPW_UNITS_PER_SERVER];
	struct spw_unit_counts counts[SPW_UNITS_PER_SERVER];
	struct spw_unit_health health[SPW_UNITS_PER_SERVER];
	__u32 deputy; /* 1 + the unit that took the last flow this server could not; 0: none yet */
	/* core/health.h; writer: spillwayd. Both were padding, 0, in the first maps of this layout. */
	__u32 excused;	    /* bit u: unit u answers its checks, so its agent's word that it is dead is not
			       followed */
	__u32 excused_beat; /* when that was last confirmed */
	__u32 pad[13];
};
SPW_ASSERT_SIZE(struct spw_server, 960);

/* Beats by which a reader's clock may lag the one that stamped a report. The coarse clock moves with the
 * timer tick, every 1 to 10 ms; in a virtual machine whose host is busy ticks come late, by far more. */
#define SPW_BEAT_LAG 1024

/* Beats from `then` to `beat`; 0 if it is stamped later than the reader's clock says. */
SPW_INLINE __u32 spw_beats_since(__u32 then, __u32 beat)
{
	__u32 age = beat - then;

	return (__u32)spw_select(spw_less(age, -(__u32)SPW_BEAT_LAG), age, 0);
}

/* Of the unit's report. */
SPW_INLINE __u32 spw_report_age(const struct spw_unit_load *load, __u32 beat)
{
	return spw_beats_since(load->report_beat, beat);
}

/* 1 if silent: no report for silent_beats, or none ever. Its load is unknown, which is not idle. */
SPW_INLINE __u32 spw_unit_is_silent(const struct spw_server *server, __u32 unit, __u32 beat)
{
	const struct spw_unit_load *load = &server->load[unit & (SPW_UNITS_PER_SERVER - 1)];

	return (__u32)(spw_is_zero(load->report_beat) |
		       spw_less(server->silent_beats, spw_report_age(load, beat)));
}
