/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Unit policy `headroom`: the unit that is expected to answer a new request soonest, and, the more
 * requests wait, the one whose queue the request lengthens least. No threshold to tune. Integers,
 * nanoseconds, O(1) per unit.
 *
 * A unit is described by three numbers that its agent fits to the latencies of its requests
 * (src/agent/learner/outcome_learner.h), and by one that changes with every request:
 *
 *   slot     work that a request brings: the time between answers when the unit works at its limit
 *   backlog  work not yet done: each request adds a slot, and it drains as time passes. The agent
 *            counts it over all that comes to the unit and reports it; between reports the switch
 *            adds its own requests. Of a unit that may use so much CPU time per period it is the
 *            quota used up, which no count of requests shows.
 *   knee     a request that finds less than knee - slot waits for nobody
 *   base     the latency of a request that does not wait, and by how much others wait longer for it under a
 *            quota (its price, src/agent/learner/ration.h)
 *
 *   ahead   backlog now
 *   wait    ahead + slot - knee, at least 0
 *   lead    by how much the unit has lately had more than its share of the requests, in ns of slots
 *   cost    base + gamma * wait + beta * (ahead + slot) + min(lead / 4, max(tail - base, base / 4)); least
 *           cost wins, ties by priority
 *
 * gamma weighs this request's waiting above its service, beta the waiting it causes for those that
 * come after. Both grow with the pressure, the server's moving average of wait / base over its new
 * requests: an idle server gives each request the quickest unit, a full one fills all units alike.
 * beta is never 0: of units that are equally quick, those with room are taken in turn.
 *
 * Shares: a unit that works in bursts (a CPU quota, garbage collection) shows too late that it gets too much.
 * All units' requests are counted on one clock, as in fair queueing: a request moves its unit by the unit's
 * slot, or by what the capacities make of another's (load.h), and the server's clock by what the slot would
 * be if all units worked as one; what a unit is ahead of the clock is its lead. The latency that 98 of 100
 * requests stay below bounds what the lead may cost: where nobody waits nothing is gained by shares, and the
 * quickest unit gets all; but units that differ by less than a quarter of base keep to their shares always,
 * as that costs little, and waiting until requests wait costs just these.
 *
 * The constants were chosen on 61 kinds of units and loads (examples/sim/real-units.yaml).
 */
#pragma once

#include "report.h"
#include "server.h"

#define SPW_ONE_SHIFT 10 /* fixed point of pressure, gamma and beta: 1024 is 1 */
#define SPW_ONE (1u << SPW_ONE_SHIFT)
#define SPW_RATIO_MAX (16 * SPW_ONE)
#define SPW_PRESSURE_SHIFT 7 /* averaged over about 128 requests; kept with so many bits more */

#define SPW_GAMMA_MAX (3 * SPW_ONE)
#define SPW_BETA_MIN (SPW_ONE / 10)
#define SPW_BETA_MAX SPW_ONE

/* Units whose bases differ by less than this part of them count as equally quick: 1/4. */
#define SPW_ALIKE_SHIFT 2

/* A lead is forgotten beyond so many slots: load that rises must not wait for a quiet hour to be paid off. */
#define SPW_LEAD_MAX_SLOTS 4
#define SPW_SLOT_MAX_NS 4000000000ULL

/* Longer backlogs count as this (4.9 h): so that no product overflows. */
#define SPW_AHEAD_MAX (1ULL << 44)

/* How much work a report's age stands for. The unit may have idled in that time, so half of it. */
SPW_INLINE __u64 spw_headroom_age(const struct spw_report *report)
{
	return (__u64)report->age_us * 500;
}

/* 1 if its agent has not learnt yet what the unit can do. */
SPW_INLINE __u32 spw_headroom_is_blind(const struct spw_unit_load *load)
{
	return (__u32)(spw_is_zero(load->base_us) | spw_is_zero(load->slot_ns));
}

SPW_INLINE __u64 spw_headroom_max(__u64 a, __u64 b)
{
	return spw_select(spw_less(a, b), b, a);
}

/* a - b, or 0 if that is negative. */
SPW_INLINE __u64 spw_headroom_beyond(__u64 a, __u64 b)
{
	return (a - b) * spw_less(b, a);
}

SPW_INLINE __u64 spw_headroom_ahead(const struct spw_unit_load *load, __u64 now_ns)
{
	__u64 ahead = spw_headroom_beyond(load->drained_ns, now_ns);

	return spw_select(spw_less(ahead, SPW_AHEAD_MAX), ahead, SPW_AHEAD_MAX);
}

SPW_INLINE __u64 spw_headroom_wait(const struct spw_unit_load *load, __u64 ahead)
{
	return spw_headroom_beyond(ahead + load->slot_ns, (__u64)load->knee_us * 1000);
}

/* What the unit's lead adds to its cost. */
SPW_INLINE __u64 spw_headroom_lead(const struct spw_server *server, const struct spw_unit_load *load)
{
	__u64 lead = spw_headroom_beyond(load->share_ns, server->share_ns) / 4;
	__u64 waits = spw_headroom_beyond(load->tail_us, load->base_us);

	waits = spw_headroom_max(waits, load->base_us >> SPW_ALIKE_SHIFT) * 1000;

	return spw_select(spw_less(lead, waits), lead, waits);
}

SPW_INLINE __u64 spw_headroom_cost(const struct spw_server *server, const struct spw_unit_load *load,
				   __u64 now_ns)
{
	__u32 pressure = server->pressure >> SPW_PRESSURE_SHIFT;
	__u64 gamma = SPW_ONE + SPW_ONE / 4 + pressure + pressure / 2;
	__u64 beta = SPW_BETA_MIN + 2 * (__u64)pressure + pressure / 2;
	__u64 ahead = spw_headroom_ahead(load, now_ns);

	gamma = spw_select(spw_less(gamma, SPW_GAMMA_MAX), gamma, SPW_GAMMA_MAX);
	beta = spw_select(spw_less(beta, SPW_BETA_MAX), beta, SPW_BETA_MAX);
	return (__u64)load->base_us * 1000 + spw_headroom_lead(server, load) +
	       ((gamma * spw_headroom_wait(load, ahead) + beta * (ahead + load->slot_ns)) >> SPW_ONE_SHIFT);
}

/* The unit of least cost; *cost is 2^63 - 1 when the mask is empty. */
SPW_INLINE int spw_headroom_best(const struct spw_server *server, __u32 mask, __u64 now_ns, __u64 *cost)
{
	__u64 best = 0, best_cost = ~0ULL >> 1;

#pragma GCC unroll 1 /* as in least-loaded: for the stack */
	for (__u32 u = 0; u < SPW_UNITS_PER_SERVER; u++) {
		__u64 c, better;

		if (!(mask >> u))
			break;
		c = spw_headroom_cost(server, &server->load[u], now_ns);
		better = spw_less(c, best_cost) & (mask >> u);
		best = spw_select(better, u, best);
		best_cost = spw_select(better, c, best_cost);
	}
	*cost = best_cost;
	return (int)best;
}

/* A new flow goes to the unit. Races between CPUs lose a slot of the backlog, until the next report, a
 * request's share, or a sample of the pressure. */
SPW_INLINE void spw_headroom_place(struct spw_server *server, __u32 unit, __u64 now_ns)
{
	struct spw_unit_load *load = &server->load[unit & (SPW_UNITS_PER_SERVER - 1)];
	__u64 wait = spw_headroom_wait(load, spw_headroom_ahead(load, now_ns));
	__u64 ratio = 0, lead, most;

	if (wait) { /* spares most requests the division */
		ratio = (wait << SPW_ONE_SHIFT) / ((__u64)load->base_us * 1000 + 1);
		ratio = spw_select(spw_less(ratio, SPW_RATIO_MAX), ratio, SPW_RATIO_MAX);
	}
	server->pressure += (__u32)ratio - (server->pressure >> SPW_PRESSURE_SHIFT);
	load->drained_ns = spw_headroom_max(load->drained_ns, now_ns) + load->slot_ns;

	lead = spw_headroom_beyond(load->share_ns, server->share_ns);
	most = SPW_LEAD_MAX_SLOTS * (__u64)load->share_slot_ns;
	load->share_ns =
	    server->share_ns + spw_select(spw_less(lead, most), lead, most) + load->share_slot_ns;
	server->share_ns += server->share_step_ns;
}
