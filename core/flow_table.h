/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Flow table: the flows that the ring cannot place. Fixed memory, 8 bytes a flow.
 *
 * A bucket is one 64-byte cache line of 8 entries; a flow may lie in its primary or its secondary
 * bucket. One entry is one word, so every change is one compare-and-swap:
 *
 *   tag 31 | overflow 1 | unit 15 | state 3 | seen 14
 *
 *   tag       upper bits of the flow's hash. Two flows that share tag and bucket share an entry: a
 *             look-up of an absent flow answers falsely with probability <= 16 * 2^-31 = 7.5e-9.
 *   overflow  (first entry of a bucket only) some flow of this primary bucket lies in its secondary;
 *             while unset, a miss costs one cache line. Never cleared.
 *   seen      tick of the last packet, modulo 2^14 (4.9 h). spillwayd sweeps out what has expired
 *             long before that wraps.
 *
 * An entry is nobody else's until it has expired: what finds no place is not remembered, and then must
 * not leave the ring. So no flood, and no surge of new flows either, costs an established flow its unit.
 * The exception is an unproven entry: of a flow that showed a single packet since it was written, in a bucket
 * that was half full by then. When it has been silent for a minute, and both buckets are full, a newcomer
 * takes its place. So who fills the table must send each flow's packets again, or every minute new ones.
 */
#pragma once

#include "types.h"

#define SPW_BUCKET_ENTRIES 8
/* Live entries at which a bucket starts to share with its other. At 10 M flows in 16 M entries: 5 puts
 * 13 % of the flows one cache line further away and has a place for all; 8 (fill up first) for all but
 * 14,291. */
#define SPW_BUCKET_HOME 5
/* Places of a bucket for datagram flows, which end sooner but yield to nobody: a flood of them leaves a
 * quarter of the table to TCP. */
#define SPW_BUCKET_DATAGRAM 6
/* Live entries of the primary bucket below which a flow needs no further proof: half of the table. */
#define SPW_BUCKET_TRUSTING 4
/* Live entries of the emptier bucket from which on a flow's place is taken with its SYN, for fear that there
 * is none with its ACK: one insert in a million meets that many at 20 % of the table. */
#define SPW_BUCKET_PRESSED 7
#define SPW_FLOW_PROBATION_TICKS 60

struct spw_bucket {
	__u64 entry[SPW_BUCKET_ENTRIES];
};
SPW_ASSERT_SIZE(struct spw_bucket, 64);

/*
 * HALF_OPEN   holds a place for a TCP handshake, whose unit the half-open table knows (core/half_open.h); for
 *             other packets of the flow there is no entry
 * UNPROVEN    open, but see above
 * CLOSING     after a FIN or RST that anybody may have forged
 * CLOSED      after one that fitted the connection's numbers: the ports may be used again
 * Numbers are in pinned maps; those that are equal modulo 4 share a limit.
 * Allowed moves: free -> half-open | unproven | open | datagram; half-open, unproven -> open;
 * open, unproven, closing -> closing | closed; closing, closed -> open; open, closing, closed -> unproven
 * (SYN); any -> free (sweep); expired -> reused.
 */
enum spw_flow_state {
	SPW_FLOW_FREE = 0,
	SPW_FLOW_OPEN,
	SPW_FLOW_DATAGRAM,
	SPW_FLOW_CLOSING,
	SPW_FLOW_HALF_OPEN,
	SPW_FLOW_UNPROVEN,
	SPW_FLOW_CLOSED = 7,
};

/* Ticks without a packet after which a flow in each state has ended: 16 bits a state, by its value modulo 4
 * (FREE needs none). */
typedef __u64 spw_flow_limits;

SPW_INLINE spw_flow_limits spw_make_flow_limits(__u16 open, __u16 datagram, __u16 closing)
{
	return SPW_FLOW_PROBATION_TICKS | (__u64)open << 16 | (__u64)datagram << 32 | (__u64)closing << 48;
}

#define SPW_FLOW_SEEN_MASK 0x3fffu
#define SPW_FLOW_OVERFLOW (1ULL << 32)
#define SPW_FLOW_STATE_SHIFT 14
#define SPW_FLOW_STATE_MASK 7u
#define SPW_FLOW_UNIT_SHIFT 17
#define SPW_FLOW_TAG_SHIFT 33

SPW_INLINE __u32 spw_flow_tag(__u64 hash)
{
	return (__u32)(hash >> SPW_FLOW_TAG_SHIFT);
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
	return (__u64)tag << SPW_FLOW_TAG_SHIFT | (__u64)(unit & 0x7fff) << SPW_FLOW_UNIT_SHIFT |
	       (__u64)state << SPW_FLOW_STATE_SHIFT | (tick & SPW_FLOW_SEEN_MASK);
}

SPW_INLINE __u32 spw_entry_tag(__u64 entry)
{
	return (__u32)(entry >> SPW_FLOW_TAG_SHIFT);
}

SPW_INLINE __u16 spw_entry_unit(__u64 entry)
{
	return (__u16)(entry >> SPW_FLOW_UNIT_SHIFT) & 0x7fff;
}

SPW_INLINE enum spw_flow_state spw_entry_state(__u64 entry)
{
	return (enum spw_flow_state)((entry >> SPW_FLOW_STATE_SHIFT) & SPW_FLOW_STATE_MASK);
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

SPW_INLINE __u64 spw_entry_in_state(__u64 entry, enum spw_flow_state state)
{
	return (entry & ~((__u64)SPW_FLOW_STATE_MASK << SPW_FLOW_STATE_SHIFT)) | (__u64)state
										     << SPW_FLOW_STATE_SHIFT;
}

SPW_INLINE __u32 spw_flow_limit(spw_flow_limits limits, enum spw_flow_state state)
{
	return (limits >> ((state & 3) * 16)) & 0xffff;
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

#define SPW_PLACE_FREE 0x10000u
#define SPW_PLACE_EXPIRED 0x8000u
#define SPW_PLACE_UNPROVEN 0x4000u /* live, but silent for so long that it gives way where all are live */

/* How readily an entry's place is taken; the low 14 bits are its idle time. Neither of the first two bits: it
 * is live. */
SPW_INLINE __u64 spw_place_score(__u64 entry, __u32 tick, spw_flow_limits limits)
{
	__u64 state = spw_entry_state(entry);
	__u64 idle = spw_entry_idle(entry, tick);
	__u64 limit = (limits >> ((state & 3) * 16)) & 0xffff;

	__u64 yields = spw_is_zero(state ^ SPW_FLOW_UNPROVEN) & spw_less(SPW_FLOW_PROBATION_TICKS, idle);

	return spw_select(spw_is_zero(state), SPW_PLACE_FREE,
			  idle | yields * SPW_PLACE_UNPROVEN | spw_less(limit, idle) * SPW_PLACE_EXPIRED);
}

/* What an insert needs to know of a bucket. */
struct spw_bucket_view {
	__u64 score; /* of the place to take first */
	__u32 index; /* of that place */
	__u32 live;  /* entries that are neither free nor expired */
};

SPW_INLINE struct spw_bucket_view spw_bucket_view(const struct spw_bucket *bucket, __u32 tick,
						  spw_flow_limits limits)
{
	__u64 best = 0, live = 0;

#pragma GCC unroll 1 /* insertion is rare, and the unrolled code spills */
	for (int i = 0; i < SPW_BUCKET_ENTRIES; i++) {
		__u64 score = spw_place_score(bucket->entry[i], tick, limits);
		__u64 candidate = (score + 1) << 32 | (__u32)i;

		best = spw_select(spw_less(best, candidate), candidate, best);
		live += spw_is_zero(score & (SPW_PLACE_FREE | SPW_PLACE_EXPIRED));
	}
	struct spw_bucket_view view = {(best >> 32) - 1, (__u32)best & (SPW_BUCKET_ENTRIES - 1), (__u32)live};

	return view;
}

enum spw_flow_insert {
	SPW_INSERTED = 0,
	SPW_INSERTED_PRESSED,	/* as before, but places become few */
	SPW_INSERTED_DISPLACED, /* an unproven flow lost its entry for it */
	SPW_INSERT_FULL,	/* no place: the flow is not remembered */
	SPW_INSERT_RACED,	/* another CPU took the place first */
};

SPW_INLINE int spw_is_inserted(enum spw_flow_insert result)
{
	return result < SPW_INSERT_FULL;
}

/* The tick to stamp a new entry with: in the past, so that it ends early unless a packet confirms it. */
SPW_INLINE __u32 spw_flow_probation(__u32 tick, __u32 limit)
{
	return limit > SPW_FLOW_PROBATION_TICKS ? tick - (limit - SPW_FLOW_PROBATION_TICKS) : tick;
}

/* The primary bucket while it has fewer than SPW_BUCKET_HOME live entries, so that most look-ups cost
 * one line; then the emptier of the two, so that a table 60 % full has a place for everybody. Ties stay home,
 * unless only the other has a place to give. An unproven entry becomes an open one where there is room
 * enough. places: live entries of a bucket that is full for this flow; at most SPW_BUCKET_ENTRIES. */
SPW_INLINE enum spw_flow_insert spw_flow_insert(struct spw_bucket *primary, struct spw_bucket *secondary,
						__u64 entry, __u32 tick, spw_flow_limits limits, __u32 places)
{
	struct spw_bucket_view view = spw_bucket_view(primary, tick, limits);
	struct spw_bucket *bucket = primary;
	__u64 old;

	if (view.live < SPW_BUCKET_TRUSTING && spw_entry_state(entry) == SPW_FLOW_UNPROVEN)
		entry = spw_entry_in_state(entry, SPW_FLOW_OPEN);
	if (view.live >= SPW_BUCKET_HOME) {
		struct spw_bucket_view other = spw_bucket_view(secondary, tick, limits);

		if (other.live < view.live ||
		    (other.live == view.live && view.live >= places && other.score > view.score)) {
			view = other;
			bucket = secondary;
		}
	}
	if (view.live >= places && !(view.score & SPW_PLACE_UNPROVEN))
		return SPW_INSERT_FULL;
	if (bucket != primary && !(primary->entry[0] & SPW_FLOW_OVERFLOW))
		__sync_fetch_and_or(&primary->entry[0], SPW_FLOW_OVERFLOW);
	old = bucket->entry[view.index & (SPW_BUCKET_ENTRIES - 1)];
	/* Taken since the view saw it free: what the swap would overwrite is no longer what was chosen. */
	if (spw_place_score(old, tick, limits) != view.score)
		return SPW_INSERT_RACED;
	if (__sync_val_compare_and_swap(&bucket->entry[view.index & (SPW_BUCKET_ENTRIES - 1)], old,
					entry | (old & SPW_FLOW_OVERFLOW)) != old)
		return SPW_INSERT_RACED;
	if (view.score < SPW_PLACE_EXPIRED)
		return SPW_INSERTED_DISPLACED;
	return view.live >= SPW_BUCKET_PRESSED ? SPW_INSERTED_PRESSED : SPW_INSERTED;
}
