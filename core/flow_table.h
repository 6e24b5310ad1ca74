/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Flow table: the flows that the ring cannot place. Fixed memory, 8 bytes a flow.
 *
 * A bucket is one 64-byte cache line of 8 entries; a flow may lie in its primary or its secondary
 * bucket. One entry is one word, so every change is one compare-and-swap:
 *
 *   tag 32 | overflow 1 | unit 15 | state 2 | seen 14
 *
 *   tag       upper half of the flow's hash. Two flows that share tag and bucket share an entry: a
 *             look-up of an absent flow answers falsely with probability <= 16 * 2^-32 = 3.7e-9.
 *   overflow  (first entry of a bucket only) some flow of this primary bucket lies in its secondary;
 *             while unset, a miss costs one cache line. Never cleared.
 *   seen      tick of the last packet, modulo 2^14 (4.9 h). spillwayd sweeps out what has expired
 *             long before that wraps.
 *
 * A flow enters on probation: stamped so that it expires after SPW_FLOW_PROBATION_TICKS unless a
 * later packet confirms it. A flood of forged handshakes therefore evicts its own entries first.
 * Eviction: free, then expired, then closing, then longest unseen.
 */
#pragma once

#include "types.h"

#define SPW_BUCKET_ENTRIES 8
/* Live entries at which a bucket starts to share with its other. At 10 M flows in 16 M entries: 5 puts
 * 13 % of the flows one cache line further away and evicts none; 8 (fill up first) evicts 14,291. */
#define SPW_BUCKET_HOME 5
#define SPW_FLOW_PROBATION_TICKS 60

struct spw_bucket {
	__u64 entry[SPW_BUCKET_ENTRIES];
};
SPW_ASSERT_SIZE(struct spw_bucket, 64);

/* Allowed moves: free -> open | datagram; open -> closing; any -> free (sweep) or reused (evict). */
enum spw_flow_state { SPW_FLOW_FREE = 0, SPW_FLOW_OPEN, SPW_FLOW_DATAGRAM, SPW_FLOW_CLOSING };

/* Ticks without a packet after which a flow in each state has ended: 16 bits a state, by its value. */
typedef __u64 spw_flow_limits;

SPW_INLINE spw_flow_limits spw_make_flow_limits(__u16 open, __u16 datagram, __u16 closing)
{
	return (__u64)open << 16 | (__u64)datagram << 32 | (__u64)closing << 48;
}

#define SPW_FLOW_SEEN_MASK 0x3fffu
#define SPW_FLOW_OVERFLOW 0x80000000ULL

SPW_INLINE __u32 spw_flow_tag(__u64 hash)
{
	return (__u32)(hash >> 32);
}

SPW_INLINE __u32 spw_flow_primary(__u64 hash, __u32 mask)
{
	return (__u32)hash & mask;
}

/* From the bucket and the tag alone, so that either bucket leads to the other. */
SPW_INLINE __u32 spw_flow_other(__u32 bucket, __u32 tag, __u32 mask)
{
	__u32 offset = (tag * 0x5bd1e995u) ^ (tag >> 15);

	return (bucket ^ (offset | 1)) & mask;
}

SPW_INLINE __u64 spw_flow_entry(__u32 tag, __u16 unit, enum spw_flow_state state, __u32 tick)
{
	return (__u64)tag << 32 | (__u64)(unit & 0x7fff) << 16 | (__u64)state << 14 |
	       (tick & SPW_FLOW_SEEN_MASK);
}

SPW_INLINE __u32 spw_entry_tag(__u64 entry)
{
	return (__u32)(entry >> 32);
}

SPW_INLINE __u16 spw_entry_unit(__u64 entry)
{
	return (__u16)(entry >> 16) & 0x7fff;
}

SPW_INLINE enum spw_flow_state spw_entry_state(__u64 entry)
{
	return (enum spw_flow_state)((entry >> 14) & 3);
}

/* Ticks since the last packet. A stamp from the near future (clocks of two CPUs) counts as now. */
SPW_INLINE __u32 spw_entry_idle(__u64 entry, __u32 tick)
{
	__u32 idle = (tick - (__u32)entry) & SPW_FLOW_SEEN_MASK;

	return (__u32)spw_select(spw_less(SPW_FLOW_SEEN_MASK - 16, idle), 0, idle);
}

SPW_INLINE __u64 spw_entry_seen(__u64 entry, __u32 tick)
{
	return (entry & ~(__u64)SPW_FLOW_SEEN_MASK) | (tick & SPW_FLOW_SEEN_MASK);
}

SPW_INLINE __u64 spw_entry_closing(__u64 entry)
{
	return entry | (__u64)SPW_FLOW_CLOSING << 14;
}

SPW_INLINE __u32 spw_flow_limit(spw_flow_limits limits, enum spw_flow_state state)
{
	return (limits >> (state * 16)) & 0xffff;
}

SPW_INLINE int spw_entry_expired(__u64 entry, __u32 tick, spw_flow_limits limits)
{
	return spw_entry_idle(entry, tick) > spw_flow_limit(limits, spw_entry_state(entry));
}

/* Index of the flow's entry in the bucket, or -1. */
SPW_INLINE int spw_flow_find(const struct spw_bucket *bucket, __u32 tag)
{
#pragma GCC unroll 8
	for (int i = 0; i < SPW_BUCKET_ENTRIES; i++) {
		__u64 entry = bucket->entry[i];

		if (spw_entry_tag(entry) == tag && spw_entry_state(entry) != SPW_FLOW_FREE)
			return i;
	}
	return -1;
}

#define SPW_VICTIM_FREE 0x10000u
#define SPW_VICTIM_EXPIRED 0x8000u
#define SPW_VICTIM_CLOSING 0x4000u

/* How readily an entry gives way; the low 14 bits are its idle time. */
SPW_INLINE __u64 spw_victim_score(__u64 entry, __u32 tick, spw_flow_limits limits)
{
	__u64 state = (entry >> 14) & 3;
	__u64 idle = spw_entry_idle(entry, tick);
	__u64 limit = (limits >> (state * 16)) & 0xffff;
	__u64 taken =
	    idle | spw_less(limit, idle) * SPW_VICTIM_EXPIRED | (state >> 1 & state) * SPW_VICTIM_CLOSING;

	return spw_select(spw_is_zero(state), SPW_VICTIM_FREE, taken);
}

/* What an insert needs to know of a bucket. */
struct spw_bucket_view {
	__u64 score; /* of the entry that gives way first */
	__u32 index; /* of that entry */
	__u32 live;  /* entries that are neither free nor expired */
};

SPW_INLINE struct spw_bucket_view spw_bucket_view(const struct spw_bucket *bucket, __u32 tick,
						  spw_flow_limits limits)
{
	__u64 best = 0, live = 0;

#pragma GCC unroll 1 /* insertion is rare, and the unrolled code spills */
	for (int i = 0; i < SPW_BUCKET_ENTRIES; i++) {
		__u64 score = spw_victim_score(bucket->entry[i], tick, limits);
		__u64 candidate = (score + 1) << 32 | (__u32)i;

		best = spw_select(spw_less(best, candidate), candidate, best);
		live += spw_is_zero(score & (SPW_VICTIM_FREE | SPW_VICTIM_EXPIRED));
	}
	struct spw_bucket_view view = {(best >> 32) - 1, (__u32)best & (SPW_BUCKET_ENTRIES - 1), (__u32)live};

	return view;
}

enum spw_flow_insert {
	SPW_INSERTED = 0,
	SPW_INSERTED_EVICTING, /* a live flow lost its entry: the table is too small */
	SPW_INSERT_RACED,      /* another CPU took the entry first; the next packet tries again */
};

/* The tick to stamp a new entry with: in the past, so that its probation ends early. */
SPW_INLINE __u32 spw_flow_probation(__u32 tick, __u32 limit)
{
	return limit > SPW_FLOW_PROBATION_TICKS ? tick - (limit - SPW_FLOW_PROBATION_TICKS) : tick;
}

/* The primary bucket while it has fewer than SPW_BUCKET_HOME live entries, so that most look-ups cost
 * one line; then the emptier of the two, so that a table 60 % full evicts nobody; both full: the one
 * with the readier victim. Ties stay home. */
SPW_INLINE enum spw_flow_insert spw_flow_insert(struct spw_bucket *primary, struct spw_bucket *secondary,
						__u64 entry, __u32 tick, spw_flow_limits limits)
{
	struct spw_bucket_view view = spw_bucket_view(primary, tick, limits);
	struct spw_bucket *bucket = primary;
	__u64 old;

	if (view.live >= SPW_BUCKET_HOME) {
		struct spw_bucket_view other = spw_bucket_view(secondary, tick, limits);
		int full = view.live == SPW_BUCKET_ENTRIES && other.live == SPW_BUCKET_ENTRIES;

		if (full ? other.score > view.score : other.live < view.live) {
			view = other;
			bucket = secondary;
			if (!(primary->entry[0] & SPW_FLOW_OVERFLOW))
				__sync_fetch_and_or(&primary->entry[0], SPW_FLOW_OVERFLOW);
		}
	}
	old = bucket->entry[view.index & (SPW_BUCKET_ENTRIES - 1)];
	/* Taken since the view saw it free: what the swap would overwrite is no longer what was chosen. */
	if (spw_victim_score(old, tick, limits) != view.score)
		return SPW_INSERT_RACED;
	if (__sync_val_compare_and_swap(&bucket->entry[view.index & (SPW_BUCKET_ENTRIES - 1)], old,
					entry | (old & SPW_FLOW_OVERFLOW)) != old)
		return SPW_INSERT_RACED;
	return view.score & (SPW_VICTIM_FREE | SPW_VICTIM_EXPIRED) ? SPW_INSERTED : SPW_INSERTED_EVICTING;
}
