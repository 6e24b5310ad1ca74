/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Placement: which unit a packet's flow is on. Every choice is core/policy.h's; here are the tables
 * around it.
 *
 *   TCP SYN       flow's live entry, else half-open entry, else the policies; remembered half-open
 *   TCP other     flow's entry, else half-open entry that deviates (it becomes an entry), else owner
 *   UDP affinity  flow's entry, else the policies, and an entry
 *   UDP none      the policies, every packet
 *
 * A server whose units are all failing, draining or down passes its new flows on: to the flow's other
 * slots, then to its deputy, and if all of these are failing, too, they are sent as if none were.
 *
 * Failure modes: a half-open entry overwritten by a flood makes a repeated SYN choose anew, and a
 * handshake that deviated fall back to the owner, who resets it; established flows are untouched. A
 * full flow table evicts the longest unseen and counts it.
 */
#pragma once

#include "maps.h"
#include "packet.h"

/*
 * The heavy arithmetic as global functions: the verifier checks each once, by itself, instead of
 * once for every path that leads to a call. Their pointers may be null as far as it can know.
 */
#define PICK_FAIL_OPEN (1u << 16) /* beside policy | default unit << 8 */

__attribute__((noinline)) int pick_unit(const struct spw_server *server, __u64 hash, __u32 ask, __u64 now_ns,
					__u32 draw)
{
	if (!server)
		return -1;
	return spw_choose(server, (__u8)ask, ask >> 8, hash, now_ns, draw, ask & PICK_FAIL_OPEN);
}

__attribute__((noinline)) int pick_second(const struct spw_server *first, const struct spw_server *second,
					  __u32 unit_policy, __u64 now_ns)
{
	if (!first || !second)
		return 0;
	return spw_prefer_second(first, second, (__u8)unit_policy, now_ns);
}

__attribute__((noinline)) int place_on(struct spw_server *server, __u32 policy, __u32 unit, __u64 now_ns)
{
	if (!server)
		return 0;
	spw_place_on(server, (__u8)policy, unit, now_ns);
	return 0;
}

/* Not 0 in tests alone: the time at which choices are made, so that they can be told beforehand. */
const volatile __u64 choices_made_at_ns;

/* Policies that weigh what was sent since a report need the time finer than the coarse clock's step,
 * which may be longer than a report period. The rest is spared the precise clock. */
__attribute__((noinline)) __u64 choice_time(__u32 server_policy, __u32 unit_policy)
{
	if (choices_made_at_ns)
		return choices_made_at_ns;
	if (server_policy == SPW_SERVER_P2C || unit_policy == SPW_UNIT_LEAST_LOADED ||
	    unit_policy == SPW_UNIT_HEADROOM)
		return bpf_ktime_get_ns();
	return bpf_ktime_get_coarse_ns();
}

__attribute__((noinline)) int write_flow(struct spw_bucket *primary, struct spw_bucket *secondary,
					 __u64 entry, __u32 tick, __u64 limits)
{
	if (!primary || !secondary)
		return SPW_INSERT_RACED;
	return spw_flow_insert(primary, secondary, entry, tick, limits);
}

struct placement {
	struct spw_endpoint *service;
	struct spw_ring_slot *slot;
	struct spw_counters *count;
	__u64 hash;
	__u64 now_ns; /* 0: not read yet */
	__u8 is_new;  /* the policies decided, now */
};

/* The clock is read only on paths that need it. */
SPW_INLINE __u64 placement_now(struct placement *at)
{
	if (!at->now_ns)
		at->now_ns = bpf_ktime_get_coarse_ns();
	return at->now_ns;
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

/* Unit policy within the server that `default_unit` names; its unit id or SPW_NO_UNIT.
 * open: PICK_FAIL_OPEN or 0. */
SPW_INLINE __u16 choose_within(struct placement *at, __u16 default_unit, __u64 now_ns, __u32 open)
{
	__u32 code = spw_unit_server(default_unit);
	struct spw_server *server = bpf_map_lookup_elem(&servers, &code);
	int unit;

	if (!server)
		return SPW_NO_UNIT;
	unit =
	    pick_unit(server, at->hash, at->service->unit_policy | spw_unit_index(default_unit) << 8 | open,
		      now_ns, server->draws);
	if (unit < 0)
		return SPW_NO_UNIT;
	unit &= SPW_UNITS_PER_SERVER - 1;
	place_on(server, at->service->unit_policy, unit, now_ns);
	return spw_unit_id(code, unit);
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

SPW_CALL __u16 default_at(struct placement *at, __u32 number)
{
	struct spw_ring_slot *slot =
	    slot_at(at->service, spw_ring_further_index(at->hash, number, at->service->ring_slots));

	return slot ? slot->next : SPW_NO_UNIT;
}

/* By now its code may be another's, of another pool. */
SPW_CALL __u16 deputy_of(const struct spw_server *server)
{
	__u16 deputy = (__u16)(server->deputy - 1);
	__u32 code = spw_unit_server(deputy);
	struct spw_server *its = bpf_map_lookup_elem(&servers, &code);

	return its && its->pool == server->pool ? deputy : SPW_NO_UNIT;
}

/* Where a flow goes that `chosen` could not take. */
SPW_INLINE __u16 default_of(struct placement *at, int attempt, __u16 chosen)
{
	__u16 first = at->slot->next;
	__u32 code = spw_unit_server(first);
	struct spw_server *server;

	if (attempt == ATTEMPT_OTHER && chosen != first)
		return first;
	if (attempt < ATTEMPT_DEPUTY)
		return default_at(at, attempt);
	if (attempt == ATTEMPT_OPEN_FIRST)
		return first;
	if (attempt == ATTEMPT_OPEN_SECOND)
		return default_at(at, 1);
	server = bpf_map_lookup_elem(&servers, &code);
	return server ? deputy_of(server) : SPW_NO_UNIT;
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
SPW_CALL __u16 choose(struct placement *at)
{
	__u16 chosen = at->slot->next, unit;
	__u64 now_ns = choice_time(at->service->server_policy, at->service->unit_policy);

	if (at->service->server_policy == SPW_SERVER_P2C) {
		__u16 second = default_at(at, 1);
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

/* 1 if the unit gets new flows as probes only: a handshake not completed there may begin elsewhere. */
SPW_CALL int unit_is_out(__u16 id, __u64 now_ns)
{
	__u32 code = spw_unit_server(id);
	struct spw_server *server = bpf_map_lookup_elem(&servers, &code);

	return server && server->failing &&
	       (spw_outage_of(server, spw_beats(now_ns)).out >> spw_unit_index(id) & 1);
}

SPW_INLINE __u64 *flow_entry_in(__u32 bucket_index, __u32 tag, struct spw_bucket **bucket)
{
	struct spw_bucket *b = bpf_map_lookup_elem(&flow_table, &bucket_index);
	int found;

	*bucket = b;
	if (!b)
		return NULL;
	found = spw_flow_find(b, tag);
	return found < 0 ? NULL : &b->entry[found & (SPW_BUCKET_ENTRIES - 1)];
}

SPW_INLINE __u64 *flow_entry(__u64 hash)
{
	__u32 tag = spw_flow_tag(hash), primary = spw_flow_primary(hash, flow_bucket_mask);
	struct spw_bucket *bucket;
	__u64 *entry = flow_entry_in(primary, tag, &bucket);

	if (entry || !bucket || !(bucket->entry[0] & SPW_FLOW_OVERFLOW))
		return entry;
	return flow_entry_in(spw_flow_other(primary, tag, flow_bucket_mask), tag, &bucket);
}

SPW_INLINE struct spw_filter_word *filter_word(__u64 hash)
{
	__u32 index = spw_filter_index(spw_flow_tag(hash), flow_filter_mask);

	return bpf_map_lookup_elem(&flow_filter, &index);
}

/* Of a TCP flow. Two questions before the table's line is fetched: its slot has flows with entries,
 * and it may be one of them. */
SPW_INLINE __u64 *tcp_flow_entry(struct placement *at)
{
	struct spw_filter_word *word;

	if (!at->slot->deviating_tick)
		return NULL;
	word = filter_word(at->hash);
	if (!word || !spw_filter_may_hold(word, spw_flow_tag(at->hash)))
		return NULL;
	return flow_entry(at->hash);
}

SPW_CALL void insert_flow(struct placement *at, __u16 unit, enum spw_flow_state state)
{
	__u32 tag = spw_flow_tag(at->hash), tick = spw_ticks(placement_now(at));
	__u32 primary = spw_flow_primary(at->hash, flow_bucket_mask);
	__u32 other = spw_flow_other(primary, tag, flow_bucket_mask);
	struct spw_bucket *a = bpf_map_lookup_elem(&flow_table, &primary);
	struct spw_bucket *b = bpf_map_lookup_elem(&flow_table, &other);
	struct spw_filter_word *word = state == SPW_FLOW_DATAGRAM ? NULL : filter_word(at->hash);
	spw_flow_limits limits = flow_limits;
	/* Of datagrams the service's own limit, by which place_datagram judges; it may be shorter. */
	__u32 limit = state == SPW_FLOW_DATAGRAM ? at->service->idle_ticks : spw_flow_limit(limits, state);
	int result;

	if (!a || !b)
		return;
	/* Before the entry: whoever sees the entry must also look for it. */
	at->slot->deviating_tick = spw_slot_tick(tick);
	if (word)
		spw_filter_add(word, tag);
	result =
	    write_flow(a, b, spw_flow_entry(tag, unit, state, spw_flow_probation(tick, limit)), tick, limits);
	if (result == SPW_INSERT_RACED) {
		at->count->flow_insert_raced++;
		return;
	}
	if (word)
		spw_filter_add(word, tag); /* again: a sweep may have cleared a side in between */
	at->count->flows_inserted++;
	if (result == SPW_INSERTED_EVICTING)
		at->count->flows_evicted++;
}

/* Frees an entry; a change by another CPU in between wins. */
SPW_INLINE void free_entry(__u64 *entry, __u64 seen)
{
	__sync_val_compare_and_swap(entry, seen, seen & SPW_FLOW_OVERFLOW);
}

/* Keeps the entry young: one write a tick, however many packets. */
SPW_INLINE void touch_entry(struct placement *at, __u64 *entry, __u64 seen, int closing)
{
	__u32 tick = spw_ticks(placement_now(at));
	__u64 fresh = spw_entry_seen(seen, tick);

	if (closing)
		fresh = spw_entry_closing(fresh);
	if (fresh == seen)
		return;
	__sync_val_compare_and_swap(entry, seen, fresh);
	at->slot->deviating_tick = spw_slot_tick(tick);
}

/* Where flows of this slot without an entry are: the owner; when it died, whoever follows it. */
SPW_INLINE __u16 ring_unit(struct placement *at)
{
	__u16 owner = at->slot->owner, next = at->slot->next;

	at->count->placed_on_ring++;
	if (owner == next)
		return owner;
	if (unit_is_alive(owner)) {
		at->slot->entryless_tick = spw_slot_tick(spw_ticks(placement_now(at)));
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

/* The flow's word, or NULL. */
SPW_INLINE __u64 *half_open_word(struct spw_half_open *bucket, __u64 hash)
{
	int found = spw_half_open_find(bucket, hash);

	return found < 0 ? NULL : &bucket->word[found & (SPW_HALF_OPEN_WAYS - 1)];
}

/* The clock is read only once the flow's word was found: most packets find none. */
SPW_INLINE __u16 half_open_unit(struct placement *at, const __u64 *word)
{
	return word ? spw_half_open_unit(*word, spw_half_open_stamp(placement_now(at))) : SPW_NO_UNIT;
}

/* After FIN or RST the next SYN of the same ports is a new flow, not a repeated one. */
SPW_INLINE void forget_half_open(__u64 hash)
{
	struct spw_half_open *bucket = half_open_bucket(hash);
	__u64 *word = bucket ? half_open_word(bucket, hash) : NULL;

	if (word)
		*word = 0;
}

/* `word`: the flow's own of an earlier handshake, or NULL. */
SPW_CALL void remember_half_open(struct placement *at, struct spw_half_open *bucket, __u64 *word, __u16 unit)
{
	__u64 fresh = spw_half_open_word(at->hash, unit, spw_half_open_stamp(placement_now(at)));

	if (word)
		*word = fresh;
	else
		spw_half_open_push(bucket, fresh);
}

SPW_INLINE __u16 place_syn(struct placement *at)
{
	struct spw_half_open *bucket = half_open_bucket(at->hash);
	__u64 *entry, *word;
	__u16 unit;

	if (!bucket)
		return SPW_NO_UNIT;
	entry = tcp_flow_entry(at);
	if (entry) {
		__u64 seen = *entry;

		/* Same flow again: while it lives, a SYN repeated late; after FIN, a new one. */
		if (spw_entry_state(seen) != SPW_FLOW_CLOSING && unit_is_alive(spw_entry_unit(seen))) {
			at->count->syn_repeated++;
			return spw_entry_unit(seen);
		}
		free_entry(entry, seen);
	}
	word = half_open_word(bucket, at->hash);
	unit = half_open_unit(at, word);
	if (unit != SPW_NO_UNIT && unit_is_alive(unit) && !unit_is_out(unit, placement_now(at))) {
		at->count->syn_repeated++;
		return unit;
	}
	unit = choose(at);
	if (unit != SPW_NO_UNIT) {
		remember_half_open(at, bucket, word, unit);
		if (at->slot->owner != at->slot->next && unit == at->slot->owner)
			at->slot->entryless_tick = spw_slot_tick(spw_ticks(placement_now(at)));
	}
	return unit;
}

SPW_INLINE __u16 place_established(struct placement *at, int closing)
{
	__u64 *entry = tcp_flow_entry(at), *word;
	struct spw_half_open *bucket;
	__u16 unit;

	if (entry) {
		__u64 seen = *entry;

		unit = spw_entry_unit(seen);
		if (unit_is_alive(unit)) {
			touch_entry(at, entry, seen, closing);
			if (closing)
				forget_half_open(at->hash);
			at->count->placed_by_entry++;
			return unit;
		}
		free_entry(entry, seen);
		at->count->flows_replaced++;
		return ring_unit(at);
	}
	bucket = half_open_bucket(at->hash);
	word = bucket ? half_open_word(bucket, at->hash) : NULL;
	unit = half_open_unit(at, word);
	if (word && closing)
		*word = 0;
	if (unit != SPW_NO_UNIT && unit != at->slot->owner && unit_is_alive(unit)) {
		insert_flow(at, unit, closing ? SPW_FLOW_CLOSING : SPW_FLOW_OPEN);
		return unit;
	}
	return ring_unit(at);
}

SPW_INLINE __u16 place_datagram(struct placement *at)
{
	__u64 *entry = flow_entry(at->hash);
	__u16 unit;

	if (entry) {
		__u64 seen = *entry;
		__u32 idle = spw_entry_idle(seen, spw_ticks(placement_now(at)));

		unit = spw_entry_unit(seen);
		if (idle <= at->service->idle_ticks && unit_is_alive(unit)) {
			touch_entry(at, entry, seen, 0);
			at->count->placed_by_entry++;
			return unit;
		}
		if (idle <= at->service->idle_ticks)
			at->count->flows_replaced++;
		free_entry(entry, seen);
	}
	unit = choose(at);
	if (unit != SPW_NO_UNIT)
		insert_flow(at, unit, SPW_FLOW_DATAGRAM);
	return unit;
}

/* For packets about a flow that are not of it (ICMP errors): looks, remembers nothing. */
SPW_INLINE __u16 place_quoted(struct placement *at)
{
	__u64 *entry = flow_entry(at->hash);

	if (entry && unit_is_alive(spw_entry_unit(*entry)))
		return spw_entry_unit(*entry);
	return at->slot->owner;
}
