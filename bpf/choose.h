/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The choice of a unit for a new flow: core/policy.h's, with the servers' entries that it needs, and the
 * further attempts when a server has no unit to give.
 */
#pragma once

#include "maps.h"
#include "packet.h"

/*
 * The heavy arithmetic as global functions (here, in pick_within and in place.h): the verifier checks each
 * once, by itself, instead of once for every path that leads to a call. Their pointers may be null as far as
 * it can know.
 */
#define PICK_FAIL_OPEN (1u << 16) /* beside the policy */

__attribute__((noinline)) int pick_second(const struct spw_server *first, const struct spw_server *second,
					  __u32 unit_policy, __u64 now_ns)
{
	if (!first || !second)
		return 0;
	return spw_prefer_second(first, second, (__u8)unit_policy, now_ns);
}

/* Not 0 in tests only: they set the time, so that choices can be predicted, and floods last as
 * long as at the rate they stand for. */
const volatile __u32 clock_is_given;
__u64 given_now_ns;

struct placement {
	struct spw_endpoint *service;
	struct spw_ring_slot *slot;
	struct spw_counters *count;
	__u64 hash;
	/* What is kept is stamped by this, seldom ahead of the coarse clock; 0: not read yet. */
	__u64 now_ns;
	__u64 choice_ns; /* of a packet that may begin a flow */
	__u8 is_new;	 /* a new flow, placed now */
	/* Of a SYN, in its half-open bucket: the index of its own word or else of its flow's, of its own
	 * word, and of a place to keep one; -1: none. */
	__s8 word_known;
	__s8 word_found;
	__s8 word_room;
};

SPW_INLINE __u64 coarse_now(void)
{
	return clock_is_given ? given_now_ns : bpf_ktime_get_coarse_ns();
}

/* The clock is read only on paths that need it. */
SPW_INLINE __u64 placement_now(struct placement *at)
{
	if (!at->now_ns)
		at->now_ns = coarse_now();
	return at->now_ns;
}

/* The coarse clock is seldom further behind: a tick of the kernel's, 10 ms at most, and some. Where it is, as
 * the CPU that keeps it was stolen, whoever reads a stamp takes one that is ahead for a young one. */
#define COARSE_LAG_NS (1u << 24)

/*
 * Policies that weigh what was sent since a report need the time finer than the coarse clock's step, which
 * may be longer than a report period; the rest is spared the precise clock. It is read before anything else:
 * it waits for all reads before it, and would wait for lines of main memory, one after the other. Packets
 * that follow are judged by the coarse clock, so what is kept is stamped by what that shows at most.
 */
SPW_INLINE void read_choice_time(struct placement *at)
{
	__u8 unit_policy = at->service->unit_policy;

	if (!clock_is_given && (at->service->server_policy == SPW_SERVER_P2C ||
				unit_policy == SPW_UNIT_LEAST_LOADED || unit_policy == SPW_UNIT_HEADROOM)) {
		at->choice_ns = bpf_ktime_get_ns();
		at->now_ns = at->choice_ns - COARSE_LAG_NS;
	} else {
		at->choice_ns = at->now_ns = coarse_now();
	}
}

SPW_INLINE struct spw_unit *unit_by_id(__u16 id)
{
	__u32 key = id;

	return bpf_map_lookup_elem(&units, &key);
}

SPW_INLINE int unit_is_alive(__u16 id)
{
	struct spw_unit *unit = unit_by_id(id);

	return unit && unit->alive;
}

SPW_INLINE struct spw_ring_slot *slot_at(const struct spw_endpoint *service, __u32 index)
{
	__u32 key = service->ring_offset + index;

	return bpf_map_lookup_elem(&ring_slots, &key);
}

/* Unit policy within the server that `default_unit` names; its unit id or SPW_NO_UNIT. ask: the policy, and
 * PICK_FAIL_OPEN or 0. */
__attribute__((noinline)) int pick_within(__u32 default_unit, __u64 hash, __u32 ask, __u64 now_ns)
{
	__u32 code = spw_unit_server((__u16)default_unit);
	struct spw_server *server = bpf_map_lookup_elem(&servers, &code);
	int unit;

	if (!server)
		return SPW_NO_UNIT;
	unit = spw_choose(server, (__u8)ask, spw_unit_index((__u16)default_unit), hash, now_ns, server->draws,
			  ask & PICK_FAIL_OPEN);
	if (unit < 0)
		return SPW_NO_UNIT;
	unit &= SPW_UNITS_PER_SERVER - 1;
	spw_place_on(server, (__u8)ask, unit, now_ns);
	return spw_unit_id(code, unit);
}

SPW_INLINE __u16 choose_within(struct placement *at, __u16 default_unit, __u64 now_ns, __u32 open)
{
	return (__u16)pick_within(default_unit, at->hash, at->service->unit_policy | open, now_ns);
}

/* Further attempts to place a flow, in order. With half of the ring's slots on failing servers, one flow in
 * 2^8 comes to the deputy. */
enum {
	ATTEMPT_OTHER = 1,  /* that of the first two slots which the server policy did not choose */
	ATTEMPT_FURTHER,    /* the flow's further slots */
	ATTEMPT_DEPUTY = 8, /* of the first slot's server */
	ATTEMPT_OPEN_FIRST, /* the two again, as if no unit were failing */
	ATTEMPT_OPEN_SECOND,
	ATTEMPTS,
};

/* On the flow's further slot of that number. */
__attribute__((noinline)) int default_at(const struct spw_endpoint *service, __u64 hash, __u32 number)
{
	struct spw_ring_slot *slot;

	if (!service)
		return SPW_NO_UNIT;
	slot = slot_at(service, spw_ring_further_index(hash, number, service->ring_slots));
	return slot ? slot->next : SPW_NO_UNIT;
}

/* Of the server of that unit. By now its code may be another's, of another pool. */
__attribute__((noinline)) int deputy_of(__u32 unit)
{
	__u32 code = spw_unit_server((__u16)unit);
	struct spw_server *server = bpf_map_lookup_elem(&servers, &code), *its;
	__u16 deputy;

	if (!server)
		return SPW_NO_UNIT;
	deputy = (__u16)(server->deputy - 1);
	code = spw_unit_server(deputy);
	its = bpf_map_lookup_elem(&servers, &code);
	return its && its->pool == server->pool ? deputy : SPW_NO_UNIT;
}

/* Where a flow goes that `chosen` could not take. */
SPW_INLINE __u16 default_of(struct placement *at, int attempt, __u16 chosen)
{
	__u16 first = at->slot->next;

	if (attempt == ATTEMPT_OTHER && chosen != first)
		return first;
	if (attempt < ATTEMPT_DEPUTY)
		return (__u16)default_at(at->service, at->hash, attempt);
	if (attempt == ATTEMPT_OPEN_FIRST)
		return first;
	if (attempt == ATTEMPT_OPEN_SECOND)
		return (__u16)default_at(at->service, at->hash, 1);
	return (__u16)deputy_of(first);
}

SPW_CALL void remember_deputy(__u16 first, __u16 unit)
{
	__u32 code = spw_unit_server(first);
	struct spw_server *server = bpf_map_lookup_elem(&servers, &code);

	/* Only a change is written: CPUs that read this line keep it. */
	if (server && server->deputy != 1 + (__u32)unit)
		server->deputy = 1 + (__u32)unit;
}

/* `chosen` is the default unit on a server that can take no new flow. */
SPW_CALL __u16 divert(struct placement *at, __u16 chosen, __u64 now_ns)
{
#pragma nounroll
	for (int attempt = ATTEMPT_OTHER; attempt < ATTEMPTS; attempt++) {
		__u32 open = attempt >= ATTEMPT_OPEN_FIRST ? PICK_FAIL_OPEN : 0;
		__u16 unit = choose_within(at, default_of(at, attempt, chosen), now_ns, open);

		if (unit == SPW_NO_UNIT)
			continue;
		if (open) {
			at->count->fail_open++;
		} else {
			at->count->flows_diverted++;
			remember_deputy(at->slot->next, unit);
		}
		return unit;
	}
	return SPW_NO_UNIT;
}

/* Both policies. */
SPW_INLINE __u16 choose(struct placement *at)
{
	__u16 chosen = at->slot->next, unit;
	__u64 now_ns = at->choice_ns;

	if (at->service->server_policy == SPW_SERVER_P2C) {
		__u16 second = (__u16)default_at(at->service, at->hash, 1);
		__u32 one = spw_unit_server(chosen), two = spw_unit_server(second);
		struct spw_server *a = bpf_map_lookup_elem(&servers, &one);
		struct spw_server *b = bpf_map_lookup_elem(&servers, &two);

		if (a && b && one != two && pick_second(a, b, at->service->unit_policy, now_ns))
			chosen = second;
	}
	at->is_new = 1;
	at->count->new_flows++;
	unit = choose_within(at, chosen, now_ns, 0);
	return unit == SPW_NO_UNIT ? divert(at, chosen, now_ns) : unit;
}

/* 0 if packets to the unit go unanswered, as far as is known: it cannot be reached, or its agent says so. */
__attribute__((noinline)) int unit_answers(__u32 unit_id)
{
	__u16 id = (__u16)unit_id;
	__u32 code = spw_unit_server(id);
	struct spw_server *server = bpf_map_lookup_elem(&servers, &code);
	struct spw_unit *unit = unit_by_id(id);

	if (!server || !unit || !unit->alive || !unit->resolved)
		return 0;
	return !server->failing ||
	       !(spw_outage_of(server, spw_beats(coarse_now())).out >> spw_unit_index(id) & 1);
}

/* Those that are ejected, or unreachable for longer, are draining to the data plane. */
__attribute__((noinline)) int takes_new_flows(__u32 unit_id)
{
	__u16 id = (__u16)unit_id;
	__u32 code = spw_unit_server(id), index = spw_unit_index(id);
	struct spw_server *server = bpf_map_lookup_elem(&servers, &code);

	SPW_OPAQUE(index);
	return server && server->unit[index & (SPW_UNITS_PER_SERVER - 1)].status == SPW_UNIT_UP &&
	       unit_answers(id);
}

/* Where packets are whose flow nothing is remembered of. */
SPW_INLINE __u16 home_of(const struct placement *at)
{
	__u16 owner = at->slot->owner, next = at->slot->next;

	return owner == next || unit_is_alive(owner) ? owner : next;
}

/* New flows go to one unit, old ones to another. */
SPW_INLINE int slot_is_moved(const struct placement *at)
{
	return at->slot->owner != at->slot->next;
}

/* The flow is placed on the ring unasked: what the next choice must know. */
SPW_CALL void keep_on_ring(struct placement *at, __u16 home)
{
	__u32 code = spw_unit_server(home);
	struct spw_server *server = bpf_map_lookup_elem(&servers, &code);

	at->count->flows_kept_on_ring++;
	if (at->is_new || !server)
		return;
	at->is_new = 1;
	at->count->new_flows++;
	spw_place_on(server, at->service->unit_policy, spw_unit_index(home), at->choice_ns);
}
