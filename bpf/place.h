/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Placement: which unit a packet's flow is on. Every choice is core/policy.h's; here are the tables
 * around it.
 *
 *   TCP SYN       flow's live entry, else the handshake that it repeats, else the policies
 *   TCP other     flow's entry, else the handshake that it goes on from, else owner
 *   UDP affinity  flow's entry, else the policies, and an entry; owner if it was refused one
 * (place_datagram.h) UDP none      the policies, every packet
 *
 * What the policies choose is the owner, or must be remembered: a *deviation*. It is a privilege: where
 * remembering would cost others (the flow's half-open bucket is young, its buckets of the flow table are
 * full, entries are written too fast) a new flow stays on its slot's owner, which needs no memory. So under
 * any flood no established flow moves, and new TCP flows connect as with a stateless ring (docs/flood.md).
 * A SYN moves nothing: its unit is remembered in the half-open table, for packets that go on from its
 * sequence number. The first of them writes the entry.
 *
 * An entry holds against SYNs as long as its unit takes new flows, and it is not closed: by a FIN or RST that
 * knew the connection's numbers, or by any, a closing time ago. Then a handshake that is completed takes it
 * over.
 *
 * A server whose units are all failing, draining or down passes its new flows on: to the flow's other
 * slots, then to its deputy, and if all of these are failing, too, they are sent as if none were. An owner
 * that can take no new flow is deviated from under a flood, too, then with a word that may be overwritten.
 *
 * Failure modes: a handshake slower than 1.9 s that deviated, during a flood, falls back to the owner, who
 * resets it; established flows are untouched.
 */
#pragma once

#include "choose.h"
#include "flow_entries.h"
#include "maps.h"
#include "packet.h"

/* After which a handshake has been given up: SPW_HALF_OPEN_AGE. */
#define HANDSHAKE_TICKS 64

/* Packets of flows without an entry keep the slot from settling, for `ticks`, or for the idle time if that is
 * shorter. */
SPW_INLINE void keep_moved(struct placement *at, __u32 ticks)
{
	__u32 idle = at->service->idle_ticks, waits = ticks < idle ? ticks : idle;
	__u16 tick = spw_slot_tick(placement_tick(at) - idle + waits);

	if ((__s16)(tick - at->slot->entryless_tick) > 0 || waits == idle)
		at->slot->entryless_tick = tick;
}

/* A flow that is on a slot's owner while the slot moves gets an entry, so that the slot need not wait for it.
 * Without a place, the slot waits. 1: it has one. */
SPW_CALL int stay_on_owner(struct placement *at, __u16 owner, enum spw_flow_state state)
{
	__u32 places = state == SPW_FLOW_DATAGRAM ? SPW_BUCKET_DATAGRAM : SPW_BUCKET_ENTRIES;

	if (rate_allows(at) && insert_flow(at, owner, state, places))
		return 1;
	keep_moved(at, ~0u);
	return 0;
}

/* Where flows of this slot without an entry are: the owner; when it died, whoever follows it. ends: the
 * packet is FIN or RST, after which nothing needs to be kept. */
SPW_INLINE __u16 ring_unit(struct placement *at, int ends)
{
	__u16 owner = at->slot->owner, next = at->slot->next;

	at->count->placed_on_ring++;
	if (owner == next)
		return owner;
	if (unit_is_alive(owner)) {
		if (!ends)
			stay_on_owner(at, owner, SPW_FLOW_UNPROVEN);
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

/* Searches as global functions: the verifier checks each once, and follows one path from there on, not one
 * for each place that a word may be found at. */
__attribute__((noinline)) __u64 find_proof(const struct spw_half_open *bucket, __u64 hash, __u32 sequence)
{
	return bucket ? spw_half_open_proof(bucket, hash, sequence) : 0;
}

/* word_known, word_found and word_room of the handshake with this number, a byte each from the lowest on. */
__attribute__((noinline)) int find_words(const struct spw_half_open *bucket, __u64 hash, __u32 isn,
					 __u32 stamp)
{
	int known, found, room;

	if (!bucket)
		return -1;
	known = found = room = spw_half_open_find(bucket, hash, isn);
	if (found < 0)
		known = spw_half_open_sibling(bucket, hash, (__u16)stamp);
	if (found < 0 || found >= SPW_HALF_OPEN_KEPT_WAYS) {
		room = spw_half_open_room(bucket, (__u16)stamp);
		if (room < 0 && ignores_pressure)
			room = 0;
	}
	return (known & 0xff) | (found & 0xff) << 8 | (room & 0xff) << 16;
}

SPW_INLINE void look_up_handshake(struct placement *at, struct spw_half_open *bucket, __u32 isn)
{
	int words = find_words(bucket, at->hash, isn, half_open_stamp(at));

	at->word_known = (__s8)words;
	at->word_found = (__s8)(words >> 8);
	at->word_room = (__s8)(words >> 16);
}

/* Unit of the handshake, or of another of the flow that has just begun: the client tries again, or one of the
 * two is forged. Else SPW_NO_UNIT. */
SPW_INLINE __u16 handshake_unit(struct placement *at, struct spw_half_open *bucket)
{
	if (at->word_known < 0)
		return SPW_NO_UNIT;
	/* Another CPU may have put another flow's there since, or emptied it. */
	return spw_half_open_unit_of(*half_open_word(bucket, at->word_known), at->hash, half_open_stamp(at));
}

/* found, room: of look_up_handshake; room -1: the word is to be kept in none. */
__attribute__((noinline)) int write_handshake(struct spw_half_open *bucket, __u64 fresh, __u32 stamp,
					      int found, int room)
{
	if (!bucket)
		return 0;
	if (found >= 0 && (room < 0 || found == room)) {
		if (spw_half_open_replace(half_open_word(bucket, found), fresh, fresh))
			return 0;
	} else if (found >= 0) {
		spw_half_open_replace(half_open_word(bucket, found), fresh, 0);
	}
	if (room < 0 || !spw_half_open_keep(half_open_word(bucket, room), fresh, (__u16)stamp))
		spw_half_open_push(bucket, fresh);
	return 0;
}

/* After look_up_handshake. keeps: in the room that was found, if there is one. */
SPW_INLINE void remember_handshake(struct placement *at, struct spw_half_open *bucket, __u16 unit, __u32 isn,
				   int keeps)
{
	__u16 stamp = half_open_stamp(at);
	__u64 fresh = spw_half_open_word(at->hash, isn, unit, stamp);
	int room = keeps ? at->word_room : -1;

	/* Nearly every one that leaves the ring. */
	if (at->word_found < 0 && room >= 0 && spw_half_open_keep(half_open_word(bucket, room), fresh, stamp))
		return;
	write_handshake(bucket, fresh, stamp, at->word_found, room);
}

/* A handshake stays on the ring, or on the unit of the connection before it. */
SPW_CALL __u16 keep_handshake(struct placement *at, struct spw_half_open *bucket, __u16 unit, __u32 isn)
{
	keep_on_ring(at, unit);
	if (slot_is_moved(at) && unit == at->slot->owner)
		keep_moved(at, HANDSHAKE_TICKS); /* its ACK will ask for an entry */
	remember_handshake(at, bucket, unit, isn, 0);
	return unit;
}

/* Of a flow without an entry, or with one that gives way, whose unit is `before`. holds: an entry holds a
 * place for it. */
SPW_CALL __u16 place_handshake(struct placement *at, struct spw_half_open *bucket, __u16 before, __u32 isn,
			       int holds)
{
	__u16 stay = before == SPW_NO_UNIT ? home_of(at) : before, unit;
	int known, deviates;

	look_up_handshake(at, bucket, isn);
	unit = handshake_unit(at, bucket);
	known = unit != SPW_NO_UNIT && takes_new_flows(unit);
	if (!known || (unit != stay && at->word_room < 0)) {
		if ((at->word_room < 0 || !rate_allows(at)) && takes_new_flows(stay))
			return keep_handshake(at, bucket, stay, isn);
	}
	if (known)
		at->count->syn_repeated++;
	else
		unit = choose(at);
	if (unit == SPW_NO_UNIT)
		return unit;
	deviates = unit != stay || (before == SPW_NO_UNIT && slot_is_moved(at));
	/* Without a place for its entry it would be followed for its first 128 KiB alone. */
	if (deviates && before == SPW_NO_UNIT && !prepare_flow(at, unit, holds) && takes_new_flows(stay))
		return keep_handshake(at, bucket, stay, isn);
	remember_handshake(at, bucket, unit, isn, deviates);
	return unit;
}

/* A pure ACK this many ticks after FIN or RST shows that the flow goes on; sooner it may be the close's last.
 */
#define REOPEN_TICKS 2

/* 1 if a SYN of the flow with this entry goes to the entry's unit, whatever the policy. */
SPW_CALL int entry_holds(struct placement *at, __u64 seen)
{
	__u32 idle = spw_entry_idle(seen, placement_tick(at));
	int takes = takes_new_flows(spw_entry_unit(seen));

	switch (spw_entry_state(seen)) {
	case SPW_FLOW_CLOSED:
		return 0;
	case SPW_FLOW_CLOSING:
		return takes && idle <= at->service->closing_ticks;
	default: /* a flow that was seen just now goes on, and its SYN is late or forged */
		return takes || idle < REOPEN_TICKS;
	}
}

/* What a SYN makes of the entry that its flow had; `before` is the entry's unit, `unit` where the SYN goes.
 */
SPW_INLINE void change_entry_of_syn(struct placement *at, __u64 *entry, __u64 seen, __u16 before, __u16 unit)
{
	__u64 fresh = spw_entry_in_state(seen, SPW_FLOW_UNPROVEN);

	if (spw_entry_state(seen) == SPW_FLOW_OPEN) {
		/* From now on packets that go on from this SYN are told from those of the flow. */
		if (unit != before)
			change_entry(at, entry, seen, fresh);
	} else if (unit == before) {
		change_entry(at, entry, seen, spw_entry_seen(fresh, placement_tick(at)));
	} else if (spw_entry_state(seen) == SPW_FLOW_CLOSING) {
		change_entry(at, entry, seen, spw_entry_in_state(seen, SPW_FLOW_CLOSED));
	}
}

SPW_INLINE __u16 place_syn(struct placement *at, __u32 isn)
{
	struct spw_half_open *bucket = half_open_bucket(at->hash);
	__u64 seen = 0, *entry = may_have_entry(at) ? flow_entry(at->hash, &seen) : NULL;
	__u16 before = SPW_NO_UNIT, unit;
	int holds = 0;

	if (!bucket)
		return SPW_NO_UNIT;
	if (entry) {
		before = spw_entry_unit(seen);
		if (!unit_is_alive(before)) {
			free_entry(entry, seen);
			before = SPW_NO_UNIT;
		} else if (spw_entry_state(seen) == SPW_FLOW_HALF_OPEN) {
			touch_entry(at, entry, seen);
			before = SPW_NO_UNIT;
			holds = 1;
		} else if (entry_holds(at, seen)) {
			at->count->syn_repeated++;
			change_entry_of_syn(at, entry, seen, before, before);
			return before;
		}
	}
	unit = place_handshake(at, bucket, before, isn, holds);
	if (entry && before != SPW_NO_UNIT)
		change_entry_of_syn(at, entry, seen, before, unit);
	return unit;
}

/* The word of the handshake that the packet goes on from, or 0; *unit: where that is. */
SPW_CALL __u64 handshake_of(struct placement *at, struct spw_half_open *bucket, __u32 sequence, __u16 *unit)
{
	__u64 found = find_proof(bucket, at->hash, sequence);

	if (!found)
		return 0;
	*unit = spw_half_open_unit(found, half_open_stamp(at));
	return unit_is_alive(*unit) ? found : 0;
}

__attribute__((noinline)) int complete_handshake(struct spw_half_open *bucket, __u64 word)
{
	if (bucket)
		spw_half_open_complete(bucket, word);
	return 0;
}

__attribute__((noinline)) int forget_handshake(struct spw_half_open *bucket, __u64 word)
{
	if (bucket)
		spw_half_open_forget(bucket, word);
	return 0;
}

__attribute__((noinline)) int refute_handshakes(struct spw_half_open *bucket, __u64 hash, __u32 home)
{
	if (bucket)
		spw_half_open_refute(bucket, hash, (__u16)home);
	return 0;
}

/* FIN or RST. It closes the connection for whoever comes next only if it shows that it knows it: by the
 * number of its handshake, as long as that is remembered. */
SPW_CALL void close_entry(struct placement *at, __u64 *entry, __u64 seen, __u32 sequence)
{
	struct spw_half_open *bucket = half_open_bucket(at->hash);
	enum spw_flow_state then = SPW_FLOW_CLOSING;
	__u16 unit = SPW_NO_UNIT;

	if (spw_entry_state(seen) == SPW_FLOW_CLOSED ||
	    (bucket && handshake_of(at, bucket, sequence, &unit) && unit == spw_entry_unit(seen)))
		then = SPW_FLOW_CLOSED;
	change_entry(at, entry, seen, spw_entry_seen(spw_entry_in_state(seen, then), placement_tick(at)));
}

/* The entry of a handshake that was completed, whatever it was before. */
SPW_CALL void settle_entry(struct placement *at, __u64 *entry, __u64 seen, __u16 unit)
{
	if (unit == home_of(at) && !slot_is_moved(at))
		free_entry(entry, seen);
	else
		change_entry(
		    at, entry, seen,
		    spw_flow_entry(spw_entry_tag(seen), unit, settled_state(at), placement_tick(at)) |
			(seen & SPW_FLOW_OVERFLOW));
}

/* By an entry that is not open. */
SPW_CALL __u16 place_unsettled(struct placement *at, __u64 *entry, __u64 seen, const struct tcp_bits *tcp)
{
	struct spw_half_open *bucket = half_open_bucket(at->hash);
	enum spw_flow_state state = spw_entry_state(seen);
	__u16 unit = spw_entry_unit(seen), proven = unit;
	__u32 tick = placement_tick(at);
	__u64 found = 0;

	if (!bucket)
		return ring_unit(at, 1);
	if (state != SPW_FLOW_CLOSING) {
		found = handshake_of(at, bucket, tcp->sequence, &proven);
		if (!found)
			proven = unit;
	}
	if (state == SPW_FLOW_HALF_OPEN && !found) {
		/* Of another connection, which may be established on the owner. While the slot moves, it
		 * needs the entry. */
		if (!tcp->ends)
			refute_handshakes(bucket, at->hash, home_of(at));
		if (tcp->ends || !slot_is_moved(at))
			return ring_unit(at, 1);
		at->count->placed_on_ring++;
		unit = home_of(at);
		change_entry(at, entry, seen,
			     spw_flow_entry(spw_entry_tag(seen), unit, SPW_FLOW_UNPROVEN, tick) |
				 (seen & SPW_FLOW_OVERFLOW));
		return unit;
	}
	at->count->placed_by_entry++;
	if (state == SPW_FLOW_HALF_OPEN || proven != unit) {
		if (!tcp->ends) {
			settle_entry(at, entry, seen, proven);
			complete_handshake(bucket, found);
		} else if (tcp->ends & TCP_RST) {
			forget_handshake(bucket, found);
			if (state == SPW_FLOW_HALF_OPEN)
				free_entry(entry, seen);
		}
		return proven;
	}
	if (tcp->ends)
		close_entry(at, entry, seen, tcp->sequence);
	else if (state == SPW_FLOW_UNPROVEN || tcp->data || spw_entry_idle(seen, tick) >= REOPEN_TICKS)
		change_entry(at, entry, seen, spw_entry_seen(spw_entry_in_state(seen, SPW_FLOW_OPEN), tick));
	return unit;
}

/* Of a flow that has no entry, and may have begun off the ring. */
SPW_CALL __u16 place_without_entry(struct placement *at, const struct tcp_bits *tcp)
{
	struct spw_half_open *bucket = half_open_bucket(at->hash);
	__u16 unit = SPW_NO_UNIT;
	__u64 found = bucket ? handshake_of(at, bucket, tcp->sequence, &unit) : 0;

	if (bucket && !found && !tcp->ends)
		refute_handshakes(bucket, at->hash, home_of(at));
	if (!bucket || !found || (unit == home_of(at) && !slot_is_moved(at)))
		return ring_unit(at, tcp->ends);
	at->count->placed_by_entry++;
	if (tcp->ends & TCP_RST)
		forget_handshake(bucket, found);
	else if (!tcp->ends && insert_flow(at, unit, SPW_FLOW_UNPROVEN, SPW_BUCKET_ENTRIES))
		complete_handshake(bucket, found);
	return unit;
}

SPW_INLINE __u16 place_established(struct placement *at, const struct tcp_bits *tcp)
{
	__u64 *entry, seen = 0;
	__u16 unit;

	if (!may_have_entry(at))
		return ring_unit(at, tcp->ends);
	entry = flow_entry(at->hash, &seen);
	if (!entry)
		return place_without_entry(at, tcp);
	unit = spw_entry_unit(seen);
	if (!unit_is_alive(unit)) {
		free_entry(entry, seen);
		at->count->flows_replaced++;
		return ring_unit(at, tcp->ends);
	}
	if (spw_entry_state(seen) != SPW_FLOW_OPEN)
		return place_unsettled(at, entry, seen, tcp);
	if (tcp->ends)
		close_entry(at, entry, seen, tcp->sequence);
	else
		touch_entry(at, entry, seen);
	at->count->placed_by_entry++;
	return unit;
}

/* For packets about a flow that are not of it (ICMP errors): looks, remembers nothing. */
SPW_INLINE __u16 place_quoted(struct placement *at)
{
	__u64 seen = 0;

	if (flow_entry(at->hash, &seen) && spw_entry_state(seen) != SPW_FLOW_HALF_OPEN &&
	    unit_is_alive(spw_entry_unit(seen)))
		return spw_entry_unit(seen);
	return at->slot->owner;
}
