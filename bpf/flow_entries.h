/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Entries of the flow table: found by way of the filter, written where there is a place and the rate allows,
 * and changed by compare-and-swap.
 */
#pragma once

#include "choose.h"
#include "maps.h"

/* when: tick | places << 32. */
__attribute__((noinline)) int write_flow(struct spw_bucket *primary, struct spw_bucket *secondary,
					 __u64 entry, __u64 when, __u64 limits)
{
	if (!primary || !secondary)
		return SPW_INSERT_RACED;
	return spw_flow_insert(primary, secondary, entry, (__u32)when, limits, (__u32)(when >> 32));
}

__attribute__((noinline)) int count_live(struct spw_bucket *bucket, __u32 tick, __u64 limits)
{
	return bucket ? spw_bucket_view(bucket, tick, limits).live : 0;
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

/* *seen: what stands there, for who changes it by compare-and-swap. */
SPW_INLINE __u64 *flow_entry(__u64 hash, __u64 *seen)
{
	__u32 tag = spw_flow_tag(hash), primary = spw_flow_primary(hash, flow_bucket_mask);
	struct spw_bucket *bucket;
	__u64 *entry = flow_entry_in(primary, tag, &bucket);

	if (!entry && bucket && (bucket->entry[0] & SPW_FLOW_OVERFLOW))
		entry = flow_entry_in(spw_flow_other(primary, tag, flow_bucket_mask), tag, &bucket);
	if (!entry)
		return NULL;
	*seen = *entry;
	/* Another CPU may just have freed it, and have given its place to another flow. */
	return spw_entry_tag(*seen) == tag && spw_entry_state(*seen) != SPW_FLOW_FREE ? entry : NULL;
}

SPW_INLINE struct spw_filter_word *filter_word(__u64 hash)
{
	__u32 index = spw_filter_index(spw_flow_tag(hash), flow_filter_mask);

	return bpf_map_lookup_elem(&flow_filter, &index);
}

/* Of a TCP flow. Two questions before the table's line is fetched: its slot has flows with entries, and it
 * may be one of them. */
SPW_INLINE int may_have_entry(struct placement *at)
{
	struct spw_filter_word *word;

	if (!at->slot->deviating_tick)
		return 0;
	word = filter_word(at->hash);
	return word && spw_filter_may_hold(word, spw_flow_tag(at->hash));
}

SPW_INLINE __u32 placement_tick(struct placement *at)
{
	return spw_ticks(placement_now(at));
}

/* 1 while fewer than `times` the budget of entries were written in this tick. */
SPW_INLINE int rate_is_below(struct placement *at, __u32 times)
{
	__u32 tick = placement_tick(at);

	/* Not for one that is behind: its clock may be another's by some milliseconds. */
	if ((__s32)(tick - insert_rate.tick) > 0) {
		insert_rate.tick = tick;
		insert_rate.inserted = 0;
	}
	return insert_rate.inserted < times * flow_insert_budget || ignores_pressure;
}

SPW_INLINE int rate_allows(struct placement *at)
{
	return rate_is_below(at, 1);
}

/* Ticks for which places count as few after an insert met few. */
#define PRESSED_TICKS 64

SPW_INLINE int places_are_few(struct placement *at)
{
	return (__s32)(placement_tick(at) - pressure.pressed_tick) <= PRESSED_TICKS && !ignores_pressure;
}

SPW_INLINE void mark_deviating(struct placement *at)
{
	__u16 tick = spw_slot_tick(placement_tick(at)), before = at->slot->deviating_tick;

	/* Only a change is written, and not by a clock that is behind: CPUs that read this line keep it. */
	if (!before || (__u16)(before - tick) > 1)
		at->slot->deviating_tick = tick;
}

/* From now on packets of the flow are looked up. */
SPW_INLINE void announce_flow(struct placement *at)
{
	struct spw_filter_word *word = filter_word(at->hash);

	mark_deviating(at);
	if (word)
		spw_filter_add(word, spw_flow_tag(at->hash));
}

/* 1 if the flow now has an entry. Writing is not refused below twice the budget, for the sake of what must
 * leave the ring; the rest asks rate_allows before. places: as spw_flow_insert's. */
SPW_CALL int insert_flow(struct placement *at, __u16 unit, enum spw_flow_state state, __u32 places)
{
	__u32 tag = spw_flow_tag(at->hash), tick = placement_tick(at);
	__u32 primary = spw_flow_primary(at->hash, flow_bucket_mask);
	__u32 other = spw_flow_other(primary, tag, flow_bucket_mask);
	struct spw_bucket *a = bpf_map_lookup_elem(&flow_table, &primary);
	struct spw_bucket *b = bpf_map_lookup_elem(&flow_table, &other);
	__u64 entry, when = (__u64)places << 32 | tick;
	int result;

	if (!a || !b || !rate_is_below(at, 2))
		return 0;
	/* By the service's own limit, by which place_datagram judges; it may be shorter than the table's. */
	entry = spw_flow_entry(tag, unit, state,
			       state == SPW_FLOW_DATAGRAM ? spw_flow_probation(tick, at->service->idle_ticks)
							  : tick);
	/* Before the entry: whoever sees the entry must also look for it. */
	mark_deviating(at);
	if (state != SPW_FLOW_DATAGRAM)
		announce_flow(at);
	result = write_flow(a, b, entry, when, flow_limits);
	if (result == SPW_INSERT_RACED) {
		at->count->flow_insert_raced++;
		result = write_flow(a, b, entry, when, flow_limits);
	}
	if (result != SPW_INSERTED && result != SPW_INSERT_RACED && pressure.pressed_tick != tick)
		pressure.pressed_tick = tick;
	if (result == SPW_INSERTED_DISPLACED)
		pressure.displaced_tick = tick;
	if (!spw_is_inserted(result))
		return 0;
	if (state != SPW_FLOW_DATAGRAM)
		announce_flow(at); /* again: a sweep may have cleared a side in between */
	at->count->flows_inserted++;
	__sync_fetch_and_add(&insert_rate.inserted, 1);
	return 1;
}

/* For a TCP handshake that is to leave the ring. Its entry is written when it is completed, so that SYNs cost
 * no line of the table; where places are few, it holds one from now on (`holds`: it does already), so that
 * there is one then. 0: there is none. */
SPW_INLINE int prepare_flow(struct placement *at, __u16 unit, int holds)
{
	announce_flow(at);
	return holds || !places_are_few(at) || insert_flow(at, unit, SPW_FLOW_HALF_OPEN, SPW_BUCKET_ENTRIES);
}

/* Of a flow whose handshake was just completed: as spw_flow_insert would. */
SPW_CALL enum spw_flow_state settled_state(struct placement *at)
{
	__u32 primary = spw_flow_primary(at->hash, flow_bucket_mask);
	struct spw_bucket *bucket = bpf_map_lookup_elem(&flow_table, &primary);

	return bucket && count_live(bucket, placement_tick(at), flow_limits) <= SPW_BUCKET_TRUSTING
		   ? SPW_FLOW_OPEN
		   : SPW_FLOW_UNPROVEN;
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
	mark_deviating(at);
}

/* Keeps the entry young: one write a tick, however many packets. */
SPW_INLINE void touch_entry(struct placement *at, __u64 *entry, __u64 seen)
{
	change_entry(at, entry, seen, spw_entry_seen(seen, placement_tick(at)));
}
