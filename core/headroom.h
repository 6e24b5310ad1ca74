/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Unit policy `headroom`: the unit that is expected to answer a new request soonest, and, the more
 * requests wait, the one whose queue the request lengthens least. No threshold to tune. Integers,
 * nanoseconds, O(1) per unit.
 *
 * A unit is told by three numbers that its agent learns (core/report.h): base, the latency of a
 * request that need not wait (about its 90th percentile); slot, the time between answers while all
 * workers are busy; span, the mean latency when none waits. Where the workers are known, too, the rest
 * of span, workers * slot taken off, is fixed: it keeps nobody busy.
 *
 *   ahead   time to work off what is in the unit or on its way: the greater of two estimates.
 *           By the clock: drained - now, where each placed request moves `drained` by a slot.
 *           By the count: held + assigned requests of a slot each, less the fixed part, in which
 *           those that came last are, and less the time that has passed since they were counted, of
 *           which no more than the credit is believed.
 *           The clock forgets what the unit did slower than expected, the count what it did since.
 *   wait    ahead + slot - (span - fixed), at least 0: until a worker is free for it
 *   cost    base + gamma * wait + beta * (ahead + slot); least cost wins, ties by priority
 *
 * gamma weighs this request's waiting above its service, beta the waiting it causes for those that
 * come after. Both grow with the pressure, the server's moving average of wait / base over its new
 * requests: an idle server gives each request the quickest unit, a full one fills all units alike.
 *
 * The constants were chosen on P4Mite's applications (DNS, VGG16, KNN; figure 5) at 10..95 % load, Poisson
 * and constant arrivals; `spillway sim examples/sim/p4mite-fig5.yaml` shows what they give.
 */
#pragma once

#include "report.h"
#include "server.h"

#define SPW_ONE_SHIFT 10 /* fixed point of pressure, gamma and beta: 1024 is 1 */
#define SPW_ONE (1u << SPW_ONE_SHIFT)
#define SPW_RATIO_MAX (16 * SPW_ONE)
#define SPW_PRESSURE_SHIFT 7 /* averaged over about 128 requests; kept with so many bits more */

#define SPW_GAMMA_MAX (3 * SPW_ONE)
#define SPW_BETA_MAX (2 * SPW_ONE)

#define SPW_REPORTS_MISSED 4 /* so many periods may pass before work is no longer taken for granted */

/* Longer backlogs count as this (4.9 h): so that no product overflows. */
#define SPW_AHEAD_MAX (1ULL << 44)
#define SPW_REQUESTS_MAX (1u << 24)

/* How much work a report's age stands for. The unit may have idled in that time, so half of it: with
 * all of it, or none, p99 of DNS at constant rate rises by 3 to 6 %. */
SPW_INLINE __u64 spw_headroom_age(const struct spw_report *report)
{
	return (__u64)report->age_us * 500;
}

/* While all workers are busy an answer comes every slot, so on average half of one has passed when
 * a request comes. Where reports are rarer than answers, a period's work has gone unseen before the
 * next one comes, and more when some are lost; without that a lost report would turn requests away. */
SPW_INLINE __u64 spw_headroom_credit(const struct spw_report *report)
{
	return spw_headroom_age(report) + SPW_REPORTS_MISSED * (__u64)report->period_us * 1000 +
	       report->slot_ns / 2;
}

/* 1 if its agent has not learnt yet what the unit can do. */
SPW_INLINE __u32 spw_headroom_is_blind(const struct spw_unit_load *load)
{
	return (__u32)(spw_is_zero(load->base_us) | spw_is_zero(load->slot_ns) |
		       spw_is_zero(load->span_us));
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

SPW_INLINE __u32 spw_headroom_fixed_us(const struct spw_report *report)
{
	__u64 busy_us = (__u64)report->workers * report->slot_ns / 1000;

	return report->workers ? (__u32)spw_headroom_beyond(report->span_us, busy_us) : 0;
}

/* Work ahead of the next request when so many are in the unit or on their way. */
SPW_INLINE __u64 spw_headroom_work(const struct spw_unit_load *load, __u64 requests)
{
	requests = spw_select(spw_less(requests, SPW_REQUESTS_MAX), requests, SPW_REQUESTS_MAX);
	return spw_headroom_beyond(requests * load->slot_ns, (__u64)load->fixed_us * 1000);
}

SPW_INLINE __u64 spw_headroom_ahead(const struct spw_unit_load *load, __u64 now_ns)
{
	__u64 by_clock = spw_headroom_beyond(load->drained_ns, now_ns);
	__u64 counted = spw_headroom_work(load, (__u64)load->held + load->assigned);
	__u64 passed = spw_headroom_beyond(now_ns, load->seen_ns);
	__u64 ahead;

	passed = spw_select(spw_less(passed, load->credit_ns), passed, load->credit_ns);
	ahead = spw_headroom_max(by_clock, spw_headroom_beyond(counted, passed));
	return spw_select(spw_less(ahead, SPW_AHEAD_MAX), ahead, SPW_AHEAD_MAX);
}

SPW_INLINE __u64 spw_headroom_wait(const struct spw_unit_load *load, __u64 ahead)
{
	return spw_headroom_beyond(ahead + load->slot_ns, (__u64)(load->span_us - load->fixed_us) * 1000);
}

SPW_INLINE __u64 spw_headroom_cost(const struct spw_unit_load *load, __u32 average, __u64 now_ns)
{
	__u32 pressure = average >> SPW_PRESSURE_SHIFT;
	__u64 gamma = SPW_ONE + SPW_ONE / 4 + pressure + pressure / 2;
	__u64 beta = 2 * (__u64)pressure + pressure / 2;
	__u64 ahead = spw_headroom_ahead(load, now_ns);

	gamma = spw_select(spw_less(gamma, SPW_GAMMA_MAX), gamma, SPW_GAMMA_MAX);
	beta = spw_select(spw_less(beta, SPW_BETA_MAX), beta, SPW_BETA_MAX);
	return (__u64)load->base_us * 1000 +
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
		c = spw_headroom_cost(&server->load[u], server->pressure, now_ns);
		better = spw_less(c, best_cost) & (mask >> u);
		best = spw_select(better, u, best);
		best_cost = spw_select(better, c, best_cost);
	}
	*cost = best_cost;
	return (int)best;
}

/* A new flow goes to the unit: before it is counted in `assigned`. Races between CPUs lose a slot
 * of the clock or a sample of the pressure; the count, kept atomically, stands. */
SPW_INLINE void spw_headroom_place(struct spw_server *server, __u32 unit, __u64 now_ns)
{
	struct spw_unit_load *load = &server->load[unit & (SPW_UNITS_PER_SERVER - 1)];
	__u64 wait = spw_headroom_wait(load, spw_headroom_ahead(load, now_ns));
	__u64 base = (__u64)load->base_us * 1000 + 1;
	__u64 ratio = (wait << SPW_ONE_SHIFT) / base;

	ratio = spw_select(spw_less(ratio, SPW_RATIO_MAX), ratio, SPW_RATIO_MAX);
	server->pressure += (__u32)ratio - (server->pressure >> SPW_PRESSURE_SHIFT);
	load->drained_ns = spw_headroom_max(load->drained_ns, now_ns) + load->slot_ns;
}
