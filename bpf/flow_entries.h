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
