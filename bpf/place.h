/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Placement: which unit a packet's flow is on. Every choice is core/policy.h's; here are the tables
 * around it.
 *
 *   TCP SYN       flow's live entry, else the handshake that it repeats, else the policies
 *   TCP other     flow's entry, else owner; a half-open entry only for what proves its handshake
 *   UDP affinity  flow's entry, else the policies, and an entry; with a policy that the ring decides, owner
 *   UDP none      the policies, every packet
 *
 * What the policies choose is the owner, or must be remembered: a *deviation*. It is a privilege: where
 * remembering would cost others (the flow's half-open bucket is young, its buckets of the flow table are full,
 * entries are written too fast) a new flow stays on its slot's owner, which needs no memory. So under any flood
 * no established flow moves, and new TCP flows connect as with a stateless ring (ARCHITECTURE.md). A SYN moves
 * nothing: what it reserves (a half-open entry) holds for packets that go on from its sequence number.
 *
 * A server whose units are all failing, draining or down passes its new flows on: to the flow's other
 * slots, then to its deputy, and if all of these are failing, too, they are sent as if none were. An owner that
 * can take no new flow is deviated from under a flood, too, then with a word that may be overwritten.
 *
 * Failure modes: a handshake slower than 1.9 s that deviated, during a flood, falls back to the owner, who
 * resets it; established flows are untouched.
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

/* Not 0 in tests alone: the time is what they say, so that choices can be told beforehand, and floods last as
 * long as at the rate they stand for. */
const volatile __u32 clock_is_given;
__u64 given_now_ns;

/* Policies that weigh what was sent since a report need the time finer than the coarse clock's step,
 * which may be longer than a report period. The rest is spared the precise clock. */
__attribute__((noinline)) __u64 choice_time(__u32 server_policy, __u32 unit_policy)
{
	if (clock_is_given)
		return given_now_ns;
	if (server_policy == SPW_SERVER_P2C || unit_policy == SPW_UNIT_LEAST_LOADED ||
	    unit_policy == SPW_UNIT_HEADROOM)
		return bpf_ktime_get_ns();
	return bpf_ktime_get_coarse_ns();
}

/* when: tick | places << 32. */
__attribute__((noinline)) int write_flow(struct spw_bucket *primary, struct spw_bucket *secondary,
					 __u64 entry, __u64 when, __u64 limits)
{
	if (!primary || !secondary)
		return SPW_INSERT_RACED;
	return spw_flow_insert(primary, secondary, entry, (__u32)when, limits, (__u32)(when >> 32));
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
		at->now_ns = clock_is_given ? given_now_ns : bpf_ktime_get_coarse_ns();
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

/* 0 if packets to the unit go unanswered, as far as is known: it cannot be reached, or its agent says so. */
SPW_CALL int unit_answers(struct placement *at, __u16 id)
{
	__u32 code = spw_unit_server(id);
	struct spw_server *server = bpf_map_lookup_elem(&servers, &code);
	struct spw_unit *unit = unit_by_id(id);

	if (!server || !unit || !unit->alive || !unit->resolved)
		return 0;
	return !server->failing ||
	       !(spw_outage_of(server, spw_beats(placement_now(at))).out >> spw_unit_index(id) & 1);
}

/* Those that are ejected, or unreachable for longer, are draining to the data plane. */
SPW_CALL int takes_new_flows(struct placement *at, __u16 id)
{
	__u32 code = spw_unit_server(id), index = spw_unit_index(id);
	struct spw_server *server = bpf_map_lookup_elem(&servers, &code);

	SPW_OPAQUE(index);
	return server && server->unit[index & (SPW_UNITS_PER_SERVER - 1)].status == SPW_UNIT_UP &&
	       unit_answers(at, id);
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
	place_on(server, at->service->unit_policy, spw_unit_index(home),
		 choice_time(at->service->server_policy, at->service->unit_policy));
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

SPW_INLINE int rate_allows(struct placement *at)
{
	__u32 tick = spw_ticks(placement_now(at));

	if (insert_rate.tick != tick) {
		insert_rate.tick = tick;
		insert_rate.inserted = 0;
	}
	return insert_rate.inserted < flow_insert_budget || ignores_pressure;
}

/* 1 if the flow now has an entry. */
SPW_CALL int insert_flow(struct placement *at, __u16 unit, enum spw_flow_state state)
{
	__u32 tag = spw_flow_tag(at->hash), tick = spw_ticks(placement_now(at));
	__u32 primary = spw_flow_primary(at->hash, flow_bucket_mask);
	__u32 other = spw_flow_other(primary, tag, flow_bucket_mask);
	struct spw_bucket *a = bpf_map_lookup_elem(&flow_table, &primary);
	struct spw_bucket *b = bpf_map_lookup_elem(&flow_table, &other);
	struct spw_filter_word *word = state == SPW_FLOW_DATAGRAM ? NULL : filter_word(at->hash);
	__u64 places = state == SPW_FLOW_HALF_OPEN ? SPW_BUCKET_ENTRIES : SPW_BUCKET_UNPROVEN;
	/* By the service's own limit, by which place_datagram judges; it may be shorter than the table's. */
	__u32 stamp = state == SPW_FLOW_DATAGRAM ? spw_flow_probation(tick, at->service->idle_ticks) : tick;
	int result;

	if (!a || !b || !rate_allows(at))
		return 0;
	/* Before the entry: whoever sees the entry must also look for it. */
	at->slot->deviating_tick = spw_slot_tick(tick);
	if (word)
		spw_filter_add(word, tag);
	result = write_flow(a, b, spw_flow_entry(tag, unit, state, stamp), places << 32 | tick, flow_limits);
	if (result == SPW_INSERT_RACED)
		at->count->flow_insert_raced++;
	if (result != SPW_INSERTED)
		return 0;
	if (word)
		spw_filter_add(word, tag); /* again: a sweep may have cleared a side in between */
	at->count->flows_inserted++;
	__sync_fetch_and_add(&insert_rate.inserted, 1);
	return 1;
}

/* Frees an entry; a change by another CPU in between wins. */
SPW_INLINE void free_entry(__u64 *entry, __u64 seen)
{
	__sync_val_compare_and_swap(entry, seen, seen & SPW_FLOW_OVERFLOW);
}

/* One write, unless another CPU was first. */
SPW_INLINE void change_entry(struct placement *at, __u64 *entry, __u64 seen, __u64 fresh)
{
	if (fresh == seen)
		return;
	__sync_val_compare_and_swap(entry, seen, fresh);
	at->slot->deviating_tick = spw_slot_tick(spw_ticks(placement_now(at)));
}

/* Keeps the entry young: one write a tick, however many packets. */
SPW_INLINE void touch_entry(struct placement *at, __u64 *entry, __u64 seen)
{
	change_entry(at, entry, seen, spw_entry_seen(seen, spw_ticks(placement_now(at))));
}

/* A flow that is on a slot's owner while the slot moves gets an entry, so that the slot need not wait for it.
 * Without a place, the slot waits. */
SPW_CALL void stay_on_owner(struct placement *at, __u16 owner, enum spw_flow_state state)
{
	if (!insert_flow(at, owner, state))
		at->slot->entryless_tick = spw_slot_tick(spw_ticks(placement_now(at)));
}

/* Where flows of this slot without an entry are: the owner; when it died, whoever follows it. ends: the packet
 * is FIN or RST, after which nothing needs to be kept. */
SPW_INLINE __u16 ring_unit(struct placement *at, int ends)
{
	__u16 owner = at->slot->owner, next = at->slot->next;

	at->count->placed_on_ring++;
	if (owner == next)
		return owner;
	if (unit_is_alive(owner)) {
		if (!ends)
			stay_on_owner(at, owner, SPW_FLOW_OPEN);
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

/* Word `index` of the bucket. */
SPW_INLINE __u64 *half_open_word(struct spw_half_open *bucket, int index)
{
	SPW_OPAQUE(index);
	return &bucket->word[index & (SPW_HALF_OPEN_WAYS - 1)];
}

SPW_INLINE __u16 half_open_stamp(struct placement *at)
{
	return spw_half_open_stamp(placement_now(at));
}

/* room: index of a place to be kept in; negative: none. */
SPW_CALL void remember_handshake(struct placement *at, struct spw_half_open *bucket, int room, __u16 unit,
				 __u32 isn)
{
	__u16 stamp = half_open_stamp(at);
	__u64 fresh = spw_half_open_word(at->hash, isn, unit, stamp);
	int found = spw_half_open_find(bucket, at->hash, isn);

	if (found >= 0 && (room < 0 || found == room)) {
		*half_open_word(bucket, found) = fresh;
		return;
	}
	if (found >= 0)
		*half_open_word(bucket, found) = 0;
	if (room < 0 || !spw_half_open_keep(half_open_word(bucket, room), fresh, stamp))
		spw_half_open_push(bucket, fresh);
}

/* Index of a place in which this handshake's word is kept, or negative. */
SPW_CALL int half_open_room(struct placement *at, struct spw_half_open *bucket, __u32 isn)
{
	int found = spw_half_open_find(bucket, at->hash, isn);

	if (found >= 0 && found < SPW_HALF_OPEN_KEPT_WAYS)
		return found;
	found = spw_half_open_room(bucket, half_open_stamp(at));
	return found < 0 && ignores_pressure ? 0 : found;
}

/* A handshake stays on the ring, or on the unit of the connection before it. */
SPW_CALL __u16 keep_handshake(struct placement *at, struct spw_half_open *bucket, __u16 unit, __u32 isn)
{
	keep_on_ring(at, unit);
	if (slot_is_moved(at) && unit == at->slot->owner)
		at->slot->entryless_tick = spw_slot_tick(spw_ticks(placement_now(at)));
	remember_handshake(at, bucket, -1, unit, isn);
	return unit;
}

/* Of a flow without a settled entry, or with one that is closing, on `before`; else SPW_NO_UNIT. */
SPW_CALL __u16 place_handshake(struct placement *at, struct spw_half_open *bucket, __u16 before, __u32 isn)
{
	__u16 stay = before == SPW_NO_UNIT ? home_of(at) : before, unit;
	int found = spw_half_open_find(bucket, at->hash, isn), room;

	if (found >= 0) {
		unit = spw_half_open_unit(*half_open_word(bucket, found), half_open_stamp(at));
		/* Elsewhere than on the ring its packets would not follow, without an entry. */
		if (unit != SPW_NO_UNIT && (unit == stay || before != SPW_NO_UNIT) && takes_new_flows(at, unit)) {
			at->count->syn_repeated++;
			return unit;
		}
	}
	room = half_open_room(at, bucket, isn);
	if ((room < 0 || !rate_allows(at)) && takes_new_flows(at, stay))
		return keep_handshake(at, bucket, stay, isn);
	unit = choose(at);
	if (unit == SPW_NO_UNIT)
		return unit;
	if (unit == stay && (before != SPW_NO_UNIT || !slot_is_moved(at)))
		room = -1; /* on the ring */
	else if (before == SPW_NO_UNIT && !insert_flow(at, unit, SPW_FLOW_HALF_OPEN))
		return keep_handshake(at, bucket, stay, isn);
	remember_handshake(at, bucket, room, unit, isn);
	return unit;
}

SPW_INLINE __u16 place_syn(struct placement *at, __u32 isn)
{
	struct spw_half_open *bucket = half_open_bucket(at->hash);
	__u64 *entry = tcp_flow_entry(at);
	__u16 before = SPW_NO_UNIT;

	if (!bucket)
		return SPW_NO_UNIT;
	if (entry) {
		__u64 seen = *entry;
		__u16 unit = spw_entry_unit(seen);
		enum spw_flow_state state = spw_entry_state(seen);

		if (!unit_is_alive(unit)) {
			free_entry(entry, seen);
		} else if (state == SPW_FLOW_CLOSING) {
			before = unit;
		} else if (state != SPW_FLOW_HALF_OPEN) {
			at->count->syn_repeated++; /* late; or forged, and must move nothing */
			return unit;
		} else if (takes_new_flows(at, unit)) {
			touch_entry(at, entry, seen);
			remember_handshake(at, bucket, half_open_room(at, bucket, isn), unit, isn);
			at->count->syn_repeated++;
			return unit;
		} else {
			free_entry(entry, seen);
		}
	}
	return place_handshake(at, bucket, before, isn);
}

/* A pure ACK this many ticks after FIN or RST shows that the flow goes on; sooner it may be the close's last. */
#define REOPEN_TICKS 2

/* By an entry that is half-open or closing. */
SPW_CALL __u16 place_unsettled(struct placement *at, __u64 *entry, __u64 seen, const struct tcp_bits *tcp)
{
	struct spw_half_open *bucket = half_open_bucket(at->hash);
	enum spw_flow_state then = tcp->fin_rst ? SPW_FLOW_CLOSING : SPW_FLOW_OPEN;
	__u32 tick = spw_ticks(placement_now(at));
	__u16 unit = spw_entry_unit(seen), proven = SPW_NO_UNIT;
	__u64 *word = NULL;
	int found;

	if (!bucket)
		return ring_unit(at, 1);
	found = spw_half_open_proof(bucket, at->hash, tcp->sequence);
	if (found >= 0) {
		word = half_open_word(bucket, found);
		proven = spw_half_open_unit(*word, half_open_stamp(at));
	}
	if (spw_entry_state(seen) == SPW_FLOW_HALF_OPEN) {
		if (proven != unit) {
			/* Of another connection, which may be established on the owner: the slot waits for it. */
			if (!tcp->fin_rst && slot_is_moved(at))
				at->slot->entryless_tick = spw_slot_tick(tick);
			return ring_unit(at, 1);
		}
		change_entry(at, entry, seen, spw_entry_seen(spw_entry_in_state(seen, then), tick));
		*word = 0;
	} else if (proven != SPW_NO_UNIT && proven != unit && unit_is_alive(proven)) {
		/* The ports are used again, and the next connection is elsewhere. */
		*word = 0;
		if (proven == home_of(at) && !slot_is_moved(at))
			free_entry(entry, seen);
		else
			change_entry(at, entry, seen,
				     spw_flow_entry(spw_entry_tag(seen), proven, then, tick) |
					 (seen & SPW_FLOW_OVERFLOW));
		unit = proven;
	} else if (tcp->fin_rst) {
		touch_entry(at, entry, seen);
	} else if (tcp->data || spw_entry_idle(seen, tick) >= REOPEN_TICKS) {
		change_entry(at, entry, seen, spw_entry_seen(spw_entry_in_state(seen, SPW_FLOW_OPEN), tick));
	}
	at->count->placed_by_entry++;
	return unit;
}

SPW_INLINE __u16 place_established(struct placement *at, const struct tcp_bits *tcp)
{
	__u64 *entry = tcp_flow_entry(at), seen;
	__u16 unit;

	if (!entry)
		return ring_unit(at, tcp->fin_rst);
	seen = *entry;
	unit = spw_entry_unit(seen);
	if (!unit_is_alive(unit)) {
		free_entry(entry, seen);
		at->count->flows_replaced++;
		return ring_unit(at, tcp->fin_rst);
	}
	if (spw_entry_state(seen) != SPW_FLOW_OPEN)
		return place_unsettled(at, entry, seen, tcp);
	if (tcp->fin_rst)
		change_entry(at, entry, seen,
			     spw_entry_seen(spw_entry_in_state(seen, SPW_FLOW_CLOSING),
					    spw_ticks(placement_now(at))));
	else
		touch_entry(at, entry, seen);
	at->count->placed_by_entry++;
	return unit;
}

/* The policies choose what the ring names, always: the ring remembers for them. */
SPW_INLINE int ring_decides(const struct spw_endpoint *service)
{
	return service->server_policy != SPW_SERVER_P2C &&
	       (service->unit_policy == SPW_UNIT_ECMP || service->unit_policy == SPW_UNIT_HOST_ONLY);
}

SPW_INLINE __u16 *refused_mark(__u64 hash)
{
	__u32 index = (__u32)(hash >> 13);

	SPW_OPAQUE(index);
	return &refused_tick[index & (REFUSED_MARKS - 1)];
}

/* 1 if `then`, a slot tick, is not longer ago than a flow of the service may be silent. */
SPW_INLINE int is_within_idle(struct placement *at, __u16 then)
{
	__u16 age = (__u16)(spw_slot_tick(spw_ticks(placement_now(at))) - then);

	return then != 0 && (age <= at->service->idle_ticks || age > 0xfff0);
}

/* A datagram's flow goes on without an entry. */
SPW_CALL void mark_refused(struct placement *at)
{
	*refused_mark(at->hash) = spw_slot_tick(spw_ticks(placement_now(at)));
}

/* Whether a datagram without an entry may be of an established flow: one that was refused an entry; one of a
 * policy that the ring decides, from before the slot moved, or from before the service got another policy. */
SPW_INLINE int datagram_may_be_old(struct placement *at)
{
	if (is_within_idle(at, *refused_mark(at->hash)))
		return 1;
	return ring_decides(at->service) == slot_is_moved(at) && is_within_idle(at, at->slot->entryless_tick);
}

SPW_CALL __u16 place_first_datagram(struct placement *at)
{
	__u16 home = home_of(at), unit;

	if (ring_decides(at->service) && !slot_is_moved(at) && unit_answers(at, home)) {
		__u16 tick = spw_slot_tick(spw_ticks(placement_now(at)));

		if (at->slot->entryless_tick != tick)
			at->slot->entryless_tick = tick;
		at->count->placed_on_ring++;
		return home;
	}
	if (datagram_may_be_old(at)) {
		at->count->placed_on_ring++;
		if (slot_is_moved(at) && home == at->slot->owner)
			stay_on_owner(at, home, SPW_FLOW_DATAGRAM);
		else if (!insert_flow(at, home, SPW_FLOW_DATAGRAM))
			mark_refused(at);
		return home;
	}
	if (!rate_allows(at) && takes_new_flows(at, home)) {
		keep_on_ring(at, home);
		mark_refused(at);
		return home;
	}
	unit = choose(at);
	if (unit == SPW_NO_UNIT || insert_flow(at, unit, SPW_FLOW_DATAGRAM) || !takes_new_flows(at, home))
		return unit;
	keep_on_ring(at, home);
	mark_refused(at);
	return home;
}

SPW_INLINE __u16 place_datagram(struct placement *at)
{
	/* A slot that has no flow with an entry spares the look-up. */
	__u64 *entry = at->slot->deviating_tick ? flow_entry(at->hash) : NULL;

	if (entry) {
		__u64 seen = *entry;
		__u16 unit = spw_entry_unit(seen);
		__u32 idle = spw_entry_idle(seen, spw_ticks(placement_now(at)));

		if (idle <= at->service->idle_ticks && unit_is_alive(unit)) {
			touch_entry(at, entry, seen);
			at->count->placed_by_entry++;
			return unit;
		}
		if (idle <= at->service->idle_ticks)
			at->count->flows_replaced++;
		free_entry(entry, seen);
	}
	return place_first_datagram(at);
}

/* For packets about a flow that are not of it (ICMP errors): looks, remembers nothing. */
SPW_INLINE __u16 place_quoted(struct placement *at)
{
	__u64 *entry = flow_entry(at->hash);

	if (entry && spw_entry_state(*entry) != SPW_FLOW_HALF_OPEN && unit_is_alive(spw_entry_unit(*entry)))
		return spw_entry_unit(*entry);
	return at->slot->owner;
}
