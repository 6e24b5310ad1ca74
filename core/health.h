/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Units that are out because their agent reports that they fail. A report may say that its unit fails:
 * requests come to it and are not answered, or are refused, or get errors (src/agent/failure_detector.h).
 * Such a unit is *out*: no policy chooses it, but for a *probe* now and then, a new flow that shows whether
 * it answers again. Its flows stay.
 *
 * What an agent's word may do, so that neither a lie nor a fault common to all empties a pool:
 *
 *   - it speaks of units of its own server only (core/report.h: the server's key);
 *   - no more than half of a pool's units are out at a time; further words are counted and not followed
 *     until others are back;
 *   - it holds while it is fresh: of a silent unit nothing is known, so it is not out;
 *   - errors that nearly all units of a pool answer are what clients ask for, or a fault behind them all:
 *     none is out for these;
 *   - a unit that goes on answering its active checks is not dead, whatever its agent says; errors are
 *     another matter, as checks do not see what clients get.
 *
 * Costs a choice one load of a line that it reads anyway, while no unit of the server is failing.
 */
#pragma once

#include "report.h"
#include "server.h"
#include "types.h"

/* A unit is probed each time that an eighth of the time it has been out has gone by, between 17 ms and
 * 0.27 s: soon after a restart that takes no time, and of a unit long dead few flows are lost. */
#define SPW_PROBE_SHIFT 3
#define SPW_PROBE_BEATS_MIN 16
#define SPW_PROBE_BEATS_MAX 256

/* A unit's excuse holds for so long, about 3 s, after spillwayd last confirmed it, which it does once a
 * second: where spillwayd is away, agents are believed again. */
#define SPW_EXCUSE_BEATS 3000

/* A pool as far as its units' health goes. Whole words of eight bytes, as entries of an array map are. */
struct spw_pool {
	__u32 units; /* that may get new flows; writer: spillwayd */
	__u32 out;   /* of them; writers: data plane, spillwayd, who sets right what races made of it */
	/* Report flags: no unit is out for a reason named here. SPW_REPORT_ERRORS or 0. Writer: spillwayd. */
	__u32 excused;
	__u32 pad;
};
SPW_ASSERT_SIZE(struct spw_pool, 16);

/* Whether so many of a pool's units answer errors that it is for a common reason. */
SPW_INLINE int spw_errors_are_common(__u32 saying, __u32 units)
{
	return units > 1 && 4 * (__u64)saying > 3 * (__u64)units;
}

struct spw_outage {
	__u32 out; /* mask of units */
	__u32 due; /* of these, to be probed now */
};

SPW_INLINE __u32 spw_probe_interval(__u32 beats_out)
{
	__u64 interval = beats_out >> SPW_PROBE_SHIFT;

	interval = spw_select(spw_less(interval, SPW_PROBE_BEATS_MIN), SPW_PROBE_BEATS_MIN, interval);
	return (__u32)spw_select(spw_less(interval, SPW_PROBE_BEATS_MAX), interval, SPW_PROBE_BEATS_MAX);
}

/* Of a server with a failing unit. */
SPW_INLINE struct spw_outage spw_outage_of(const struct spw_server *server, __u32 beat)
{
	struct spw_outage outage = {0, 0};

#pragma GCC unroll 1
	for (__u32 u = 0; u < SPW_UNITS_PER_SERVER; u++) {
		const struct spw_unit_health *health = &server->health[u];
		__u32 interval = spw_probe_interval(spw_beats_since(health->out_beat, beat));
		__u32 is_out = server->failing >> u & 1 & (1 - spw_unit_is_silent(server, u, beat));

		outage.out |= is_out << u;
		outage.due |=
		    (is_out & (1 - (__u32)spw_less(spw_beats_since(health->probe_beat, beat), interval)))
		    << u;
	}
	return outage;
}

/* spillwayd excuses the unit for being dead: it answers its checks. */
SPW_INLINE int spw_unit_is_excused(const struct spw_server *server, __u32 unit, __u8 flags, __u32 beat)
{
	return (server->excused >> (unit & (SPW_UNITS_PER_SERVER - 1)) & 1) && !(flags & SPW_REPORT_ERRORS) &&
	       spw_beats_since(server->excused_beat, beat) < SPW_EXCUSE_BEATS;
}

enum spw_health_change {
	SPW_HEALTH_SAME = 0,
	SPW_HEALTH_OUT,
	SPW_HEALTH_BACK,
	SPW_HEALTH_KEPT, /* said to fail, but half of the pool is out already, or it is excused */
};

/* An accepted report of the unit has these flags. CPUs that race may take one unit too many out, until
 * spillwayd's next look. */
SPW_INLINE enum spw_health_change spw_health_report(struct spw_server *server, struct spw_pool *pool,
						    __u32 unit, __u8 flags, __u64 now_ns)
{
	__u32 u = unit & (SPW_UNITS_PER_SERVER - 1), was_out = server->failing >> u & 1, beat;
	__u32 is_failing = (flags & SPW_REPORT_FAILING) && server->unit[u].status == SPW_UNIT_UP;

	beat = spw_beats(now_ns);
	if (!is_failing || (flags & pool->excused) || spw_unit_is_excused(server, u, flags, beat)) {
		if (!was_out)
			return is_failing ? SPW_HEALTH_KEPT : SPW_HEALTH_SAME;
		__sync_fetch_and_and(&server->failing, ~(1u << u));
		if (pool->out) /* spillwayd may just have counted anew */
			__sync_fetch_and_add(&pool->out, -1);
		return SPW_HEALTH_BACK;
	}
	if (was_out)
		return SPW_HEALTH_SAME;
	if (2 * ((__u64)pool->out + 1) > pool->units)
		return SPW_HEALTH_KEPT;
	server->health[u].out_beat = beat;
	server->health[u].probe_beat = beat;
	__sync_fetch_and_add(&pool->out, 1);
	__sync_fetch_and_or(&server->failing, 1u << u);
	return SPW_HEALTH_OUT;
}

/* A new flow goes to the unit. */
SPW_INLINE void spw_health_place(struct spw_server *server, __u32 unit, __u64 now_ns)
{
	__u32 u = unit & (SPW_UNITS_PER_SERVER - 1);

	if (server->failing >> u & 1)
		server->health[u].probe_beat = spw_beats(now_ns);
}
