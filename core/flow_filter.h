/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Flow filter: which TCP flows may have an entry in the flow table, as a Bloom filter of two bits in
 * one word, both by the flow's tag, small enough to stay in a core's own cache. A flow without an entry
 * then seldom pays for a look-up, which is a line of main memory. Bits may be set for nothing, never
 * missing: a miss would send an established flow to its slot's owner.
 *
 * Bits cannot be taken back one by one, so there are two sides, and a reader looks at both. Spillwayd's
 * sweep (src/switch/flow_sweeper.h) in turn clears one side and sets it anew from the entries that
 * live, while the other still holds them all. Whoever writes an entry adds its bits to both sides
 * before, so that a packet on another CPU finds the entry, and after: then either the sweep saw the
 * entry, or the side had been cleared before the second addition.
 */
#pragma once

#include "types.h"

struct spw_filter_word {
	__u64 side[2];
};
SPW_ASSERT_SIZE(struct spw_filter_word, 16);

#define SPW_FILTER_WORDS_MIN 64

/* Words for a table of so many buckets: a bit for each four entries of it, 1 MiB of 16 M entries. */
SPW_INLINE __u32 spw_filter_words(__u32 flow_buckets)
{
	__u32 words = flow_buckets / 32;

	return words < SPW_FILTER_WORDS_MIN ? SPW_FILTER_WORDS_MIN : words;
}

/* mask: words - 1, a power of two less one. */
SPW_INLINE __u32 spw_filter_index(__u32 tag, __u32 mask)
{
	return (tag >> 6) & mask;
}

/* Of tag bits that the index does not use while there are at most 2^19 words. */
SPW_INLINE __u64 spw_filter_bits(__u32 tag)
{
	return 1ULL << (tag & 63) | 1ULL << (tag >> 25 & 63);
}

SPW_INLINE int spw_filter_may_hold(const struct spw_filter_word *word, __u32 tag)
{
	return (~(word->side[0] | word->side[1]) & spw_filter_bits(tag)) == 0;
}

/* To both sides, by atomic OR; bits that are set cost no write. */
SPW_INLINE void spw_filter_add(struct spw_filter_word *word, __u32 tag)
{
	__u64 bits = spw_filter_bits(tag);

	if (~word->side[0] & bits)
		__sync_fetch_and_or(&word->side[0], bits);
	if (~word->side[1] & bits)
		__sync_fetch_and_or(&word->side[1], bits);
}
