/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Half-open table: where a TCP SYN was sent, until the connection's next packet. Small enough to
 * stay in cache: a SYN flood overwrites half-open entries here and nothing else; established flows
 * live in the flow table or on their slot's owner.
 *
 * A bucket is one cache line of 8 words, first in, first out. A handshake loses its entry only when
 * 8 newer ones fall into its bucket before its ACK: with 1,000 handshakes under way, 6 in 10^8.
 *
 * One entry is one word: tag 32 | unit 16 | stamp 16. An all-zero word is an empty entry.
 */
#pragma once

#include "types.h"

#define SPW_HALF_OPEN_WAYS 8
#define SPW_HALF_OPEN_BUCKETS 2048   /* 128 KiB; a flood of 1 M SYN/s leaves a handshake ~16 ms */
#define SPW_HALF_OPEN_STAMP_SHIFT 22 /* stamps of 4.19 ms; 16 bits wrap after 275 s */
#define SPW_HALF_OPEN_AGE 15259	     /* 64 s: Linux gives up on a SYN after 6 retries, 63 s */

struct spw_half_open {
	__u64 word[SPW_HALF_OPEN_WAYS];
};
SPW_ASSERT_SIZE(struct spw_half_open, 64);

SPW_INLINE __u32 spw_half_open_index(__u64 hash)
{
	return (__u32)(hash >> 18) & (SPW_HALF_OPEN_BUCKETS - 1);
}

SPW_INLINE __u16 spw_half_open_stamp(__u64 now_ns)
{
	return (__u16)(now_ns >> SPW_HALF_OPEN_STAMP_SHIFT);
}

SPW_INLINE __u64 spw_half_open_word(__u64 hash, __u16 unit, __u16 stamp)
{
	return (hash & 0xffffffff00000000ULL) | (__u64)unit << 16 | stamp;
}

/* Index of the flow's word in its bucket, fresh or not, or -1. */
SPW_INLINE int spw_half_open_find(const struct spw_half_open *bucket, __u64 hash)
{
#pragma GCC unroll 8
	for (int i = 0; i < SPW_HALF_OPEN_WAYS; i++) {
		__u64 word = bucket->word[i];

		if ((word ^ hash) >> 32 == 0 && word != 0)
			return i;
	}
	return -1;
}

/* Unit in a word that was found, or SPW_NO_UNIT when it is too old to be of this handshake. */
SPW_INLINE __u16 spw_half_open_unit(__u64 word, __u16 stamp)
{
	if ((__u16)(stamp - (__u16)word) > SPW_HALF_OPEN_AGE)
		return SPW_NO_UNIT;
	return (__u16)(word >> 16);
}

/* The word to overwrite: an empty one, else the oldest. */
SPW_INLINE __u32 spw_half_open_victim(const struct spw_half_open *bucket, __u16 stamp)
{
	__u64 best = 0;

#pragma GCC unroll 1
	for (__u32 i = 0; i < SPW_HALF_OPEN_WAYS; i++) {
		__u64 word = bucket->word[i];
		__u64 age = spw_select(spw_is_zero(word >> 1), 0x10000, (__u16)(stamp - (__u16)word));
		__u64 candidate = (age + 1) << 32 | i;

		best = spw_select(spw_less(best, candidate), candidate, best);
	}
	return (__u32)best & (SPW_HALF_OPEN_WAYS - 1);
}
