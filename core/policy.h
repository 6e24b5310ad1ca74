/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Every balancing decision. Pure: state and time come in as arguments, the choice goes out; the BPF
 * program, the simulator and the tests call the same functions.
 *
 * A decision has two steps. The *server policy* picks one of at most two candidate servers, each
 * named by a ring slot; the *unit policy* picks the unit within it. `maglev`, `ecmp` and `wcmp` are
 * decided by how the ring was laid, so their first step is the slot itself; `p2c` compares two.
 *
 * Units stand in order of priority. Only units that are `up` get new flows, and under every policy those
 * whose agents say that they fail get probes alone (core/health.h). Policies that read reports give a
 * silent unit its share by capacity, no more and no less, and decide among the rest.
 */
#pragma once

#include "headroom.h"
#include "health.h"
#include "report.h"
#include "ring.h"
#include "server.h"
#include "types.h"

enum spw_server_policy {
	SPW_SERVER_MAGLEV = 0, /* consistent, weighted by capacity */
	SPW_SERVER_ECMP,       /* equal shares */
	SPW_SERVER_WCMP,       /* exact shares by capacity */
	SPW_SERVER_P2C,	       /* the less loaded of two */
	SPW_SERVER_POLICIES,
};

enum spw_unit_policy {
	SPW_UNIT_P4MITE = 0,   /* first that is not busy, in order of priority */
	SPW_UNIT_WRR,	       /* in turn, by capacity */
	SPW_UNIT_ECMP,	       /* by hash, equal shares */
	SPW_UNIT_HOST_ONLY,    /* the host CPU: blind to accelerators */
	SPW_UNIT_LEAST_LOADED, /* fewest requests per capacity, by the report and what was sent since */
	SPW_UNIT_HEADROOM,     /* least expected latency, by the report and what was sent since */
	SPW_UNIT_JSQ,	       /* shortest queue by the last report alone */
	SPW_UNIT_POLICIES,
};

SPW_INLINE int spw_unit_policy_reads_reports(__u32 policy)
{
	return policy == SPW_UNIT_P4MITE || policy >= SPW_UNIT_LEAST_LOADED;
}

/* A mask of units: bit u is unit u. Masks come from arithmetic alone (see spw_less). */
SPW_INLINE __u32 spw_eligible(const struct spw_server *server)
{
	__u32 mask = 0;

#pragma GCC unroll 8
	for (int u = 0; u < SPW_UNITS_PER_SERVER; u++)
		mask |= (__u32)spw_is_zero(server->unit[u].status ^ SPW_UNIT_UP) << u;
	return mask;
}

SPW_INLINE __u32 spw_hosts(const struct spw_server *server)
{
	__u32 mask = 0;

#pragma GCC unroll 8
	for (int u = 0; u < SPW_UNITS_PER_SERVER; u++)
		mask |= (__u32)spw_is_zero(server->unit[u].kind ^ SPW_KIND_CPU) << u;
	return mask;
}

/* Those units of `mask` that the policy knows too little of: silent ones and, for headroom, those that
 * their agents have not learnt yet. Reads no cache line beyond the last unit of the mask. */
SPW_INLINE __u32 spw_unknown(const struct spw_server *server, __u32 mask, __u32 policy, __u32 beat)
{
	__u32 must_be_learnt = (__u32)spw_is_zero(policy ^ SPW_UNIT_HEADROOM), unknown = 0;

#pragma GCC unroll 1
	for (__u32 u = 0; u < SPW_UNITS_PER_SERVER; u++) {
		if (!(mask >> u))
			break;
		unknown |= (spw_unit_is_silent(server, u, beat) |
			    (spw_headroom_is_blind(&server->load[u]) & must_be_learnt))
			   << u;
	}
	return unknown & mask;
}

SPW_INLINE __u32 spw_busy(const struct spw_server *server)
{
	__u32 mask = 0;

#pragma GCC unroll 8
	for (int u = 0; u < SPW_UNITS_PER_SERVER; u++)
		mask |= (__u32)(server->load[u].flags & SPW_REPORT_BUSY) << u;
	return mask;
}

/* Lowest unit of a mask, the highest priority; -1 if it is empty. */
SPW_INLINE int spw_first(__u32 mask)
{
	__u32 bit = mask & (0 - mask);

	if (mask == 0)
		return -1;
	return (int)(((bit & 0xaa) + 0xff) >> 8 | ((bit & 0xcc) + 0xff) >> 8 << 1 |
		     ((bit & 0xf0) + 0xff) >> 8 << 2);
}

/* Length of unit u on the line that turns are taken on. */
SPW_INLINE __u32 spw_turn_length(const struct spw_server *server, __u32 mask, int u, int equal)
{
	return (mask >> u & 1) * (equal ? 1 : server->unit[u].weight);
}

/*
 * The units of `mask` lie on a line, each as long as its weight, or 1 if `equal`; `uniform` (32 bits)
 * is scaled onto the line and names the unit it falls on. -1: mask empty.
 */
SPW_INLINE int spw_turn(const struct spw_server *server, __u32 mask, __u32 uniform, int equal)
{
	__u32 total = 0, end = 0, turn = 0, at;

#pragma GCC unroll 8
	for (int u = 0; u < SPW_UNITS_PER_SERVER; u++)
		total += spw_turn_length(server, mask, u, equal);
	if (total == 0)
		return -1;
	at = spw_scale(uniform, total);
	/* The turn is the number of units that end at or before `at`. */
#pragma GCC unroll 8
	for (int u = 0; u < SPW_UNITS_PER_SERVER; u++) {
		end += spw_turn_length(server, mask, u, equal);
		turn += 1 - (__u32)spw_less(at, end);
	}
	return (int)turn;
}

/*
 * Weighted turn number `draw`: the golden-ratio sequence over the line. After n draws every unit has
 * its share of n to within a few, in any window, so turns interleave as in smooth weighted round
 * robin, without state per unit.
 */
SPW_INLINE int spw_weighted_turn(const struct spw_server *server, __u32 mask, __u32 draw)
{
	return spw_turn(server, mask, draw * 0x9e3779b1u, 0);
}

/* All busy: the first in order of priority, as if none were. */
SPW_INLINE int spw_choose_available(const struct spw_server *server, __u32 mask)
{
	__u32 available = mask & ~spw_busy(server);

	return spw_first(available ? available : mask);
}

#define SPW_BACKLOG_ONE 16		   /* one request; a backlog counts sixteenths */
#define SPW_BACKLOG_LATENCY_MAX (1u << 24) /* us; longer latencies count as this, so that products fit */

/*
 * Requests in the unit now, below 2^37 sixteenths. What it held when it reported and what was sent
 * since have come over the report's age, but each stays only for about the unit's latency: by
 * Little's law, latency / age of them are there. Counting them all would call a fast unit loaded
 * late in every report period. Where the latency is longer than the age, or not known, all count.
 */
SPW_INLINE __u64 spw_backlog(const struct spw_unit_load *load, __u32 beat)
{
	__u64 seen = ((__u64)load->queue + load->assigned) * SPW_BACKLOG_ONE;
	__u64 age_us = (__u64)spw_report_age(load, beat) << (SPW_BEAT_SHIFT - 10); /* of 1,024 ns */
	__u64 latency_us = load->latency_us, unknown = spw_is_zero(latency_us), stay, span;

	stay =
	    spw_select(spw_less(latency_us, SPW_BACKLOG_LATENCY_MAX), latency_us, SPW_BACKLOG_LATENCY_MAX) +
	    unknown;
	span = spw_select((1 - unknown) & spw_less(stay, age_us), age_us, stay);
	return seen * stay / span;
}

/* Least (backlog + 1) / weight: the time until the new request would leave, in service times of
 * the whole unit. Compared crosswise; ties go to the higher priority. */
SPW_INLINE int spw_choose_least_loaded(const struct spw_server *server, __u32 mask, __u32 beat)
{
	__u64 best_backlog = 1ULL << 38, best_weight = 1, best = 0;

	if (mask == 0)
		return -1;
#pragma GCC unroll 1 /* unrolled, eight backlogs need more stack than a BPF program has */
	for (int u = 0; u < SPW_UNITS_PER_SERVER; u++) {
		__u64 backlog = spw_backlog(&server->load[u], beat) + SPW_BACKLOG_ONE;
		__u64 weight = server->unit[u].weight;
		__u64 better = spw_less(backlog * best_weight, best_backlog * weight) & (mask >> u);

		best = spw_select(better, u, best);
		best_backlog = spw_select(better, backlog, best_backlog);
		best_weight = spw_select(better, weight, best_weight);
	}
	return (int)best;
}

/* Fewest requests in the unit when it reported; ties go to the higher priority. */
SPW_INLINE int spw_choose_shortest(const struct spw_server *server, __u32 mask)
{
	__u64 best = 0, shortest = 1u << 16;

	if (mask == 0)
		return -1;
#pragma GCC unroll 8
	for (int u = 0; u < SPW_UNITS_PER_SERVER; u++) {
		__u64 better = spw_less(server->load[u].queue, shortest) & (mask >> u);

		best = spw_select(better, u, best);
		shortest = spw_select(better, server->load[u].queue, shortest);
	}
	return (int)best;
}

SPW_INLINE int spw_choose_headroom(const struct spw_server *server, __u32 mask, __u64 now_ns)
{
	__u64 cost;

	return mask ? spw_headroom_best(server, mask, now_ns, &cost) : -1;
}

/* Units that may get a new flow under the policy. */
struct spw_candidates {
	__u32 well;
	__u32 due; /* failing units that want a probe: the flow goes to the first of them */
};

SPW_INLINE struct spw_candidates spw_candidates_of(const struct spw_server *server, __u32 policy, __u32 beat)
{
	struct spw_candidates units = {spw_eligible(server), 0};

	if (server->failing) {
		struct spw_outage outage = spw_outage_of(server, beat);

		units.due = outage.due & units.well;
		if (policy == SPW_UNIT_HOST_ONLY)
			units.due &= spw_hosts(server);
		units.well &= ~outage.out;
	}
	return units;
}

/*
 * The unit of `server` for a new flow: its index, or -1 when no unit may take it.
 * default_unit: the index that the ring slot names (it was laid for this policy).
 * fail_open: 1: as if no unit were failing.
 */
SPW_INLINE int spw_choose(const struct spw_server *server, __u8 policy, __u32 default_unit, __u64 hash,
			  __u64 now_ns, __u32 draw, __u32 fail_open)
{
	__u32 beat = spw_beats(now_ns), eligible, unknown;
	int turn;

	if (fail_open) {
		eligible = spw_eligible(server);
	} else {
		struct spw_candidates units = spw_candidates_of(server, policy, beat);

		if (units.due)
			return spw_first(units.due);
		eligible = units.well;
	}
	if (eligible == 0)
		return -1;
	switch (policy) {
	case SPW_UNIT_ECMP:
	case SPW_UNIT_HOST_ONLY:
		if (eligible >> (default_unit & (SPW_UNITS_PER_SERVER - 1)) & 1)
			return (int)(default_unit & (SPW_UNITS_PER_SERVER - 1));
		return policy == SPW_UNIT_ECMP ? spw_turn(server, eligible, (__u32)(hash >> 16), 1)
					       : spw_first(eligible & spw_hosts(server));
	case SPW_UNIT_WRR:
		return spw_weighted_turn(server, eligible, draw);
	}
	unknown = spw_unknown(server, eligible, policy, beat);
	if (unknown) {
		turn = spw_weighted_turn(server, eligible, draw);
		if (turn >= 0 && unknown >> turn & 1)
			return turn;
		eligible &= ~unknown;
	}
	switch (policy) {
	case SPW_UNIT_HEADROOM:
		return spw_choose_headroom(server, eligible, now_ns);
	case SPW_UNIT_LEAST_LOADED:
		return spw_choose_least_loaded(server, eligible, beat);
	case SPW_UNIT_JSQ:
		return spw_choose_shortest(server, eligible);
	}
	return spw_choose_available(server, eligible);
}

SPW_INLINE int spw_choose_unit(const struct spw_server *server, __u8 policy, __u32 default_unit, __u64 hash,
			       __u64 now_ns, __u32 draw)
{
	return spw_choose(server, policy, default_unit, hash, now_ns, draw, 0);
}

/* The choice is made: what the next one must know. */
SPW_INLINE void spw_place_on(struct spw_server *server, __u8 policy, __u32 unit, __u64 now_ns)
{
	server->draws++;
	spw_health_place(server, unit, now_ns);
	if (policy == SPW_UNIT_HEADROOM)
		spw_headroom_place(server, unit, now_ns);
	__sync_fetch_and_add(&server->load[unit & (SPW_UNITS_PER_SERVER - 1)].assigned, 1);
}

struct spw_server_load {
	__u64 backlog, weight;
};

SPW_INLINE struct spw_server_load spw_sum_load(const struct spw_server *server, __u32 mask, __u32 beat)
{
	struct spw_server_load sum = {SPW_BACKLOG_ONE, 0};

#pragma GCC unroll 1 /* unrolled, eight backlogs need more stack than a BPF program has */
	for (int u = 0; u < SPW_UNITS_PER_SERVER; u++) {
		sum.backlog += spw_backlog(&server->load[u], beat) * (mask >> u & 1);
		sum.weight += server->unit[u].weight * (mask >> u & 1);
	}
	return sum;
}

/* p2c: whether `second` is the better of two candidates: one with a failing unit to probe, else the one with
 * less load per capacity. By expected latency, all would go where it was learnt to be slightly less. A server
 * with a silent unit cannot be compared, so the ring decides: fresh reports must never lose to missing ones.
 */
SPW_INLINE int spw_prefer_second(const struct spw_server *first, const struct spw_server *second,
				 __u8 unit_policy, __u64 now_ns)
{
	__u32 beat = spw_beats(now_ns), one, two;
	struct spw_candidates units = spw_candidates_of(first, unit_policy, beat);
	struct spw_server_load a, b;

	if (units.due)
		return 0;
	one = units.well;
	units = spw_candidates_of(second, unit_policy, beat);
	if (units.due)
		return 1;
	two = units.well;
	if (one == 0 || two == 0)
		return two != 0;
	if (spw_unknown(first, one, unit_policy, beat) || spw_unknown(second, two, unit_policy, beat))
		return 0;
	a = spw_sum_load(first, one, beat);
	b = spw_sum_load(second, two, beat);
	return b.backlog * a.weight < a.backlog * b.weight;
}
