/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Half-open table: where a TCP SYN was sent, until the connection's next packet. Small enough to
 * stay in cache: a SYN flood overwrites half-open entries here and nothing else; established flows
 * live in the flow table or on their slot's owner.
 *
 * A bucket is one cache line of 8 words, newest first. A handshake loses its entry only when 8 newer
 * ones fall into its bucket before its ACK: with 1,000 handshakes under way, 6 in 10^8.
 *
 * One entry is one word: tag 40 | unit 15 | stamp 9. An all-zero word is an empty entry. Tag and bucket
 * tell flows apart by 51 bits of the hash: a packet of a flow without an entry meets a stranger's word
 * with probability <= 8 * 2^-40 = 7e-12, and new handshakes bring such a word at flows * SYN/s * 2^-51.
 *
 * Two CPUs that write one bucket at once may lose a word, and so a handshake that deviated.
 */
#pragma once

#include "types.h"

#define SPW_HALF_OPEN_WAYS 8
#define SPW_HALF_OPEN_BUCKETS 2048    /* 128 KiB; a flood of 1 M SYN/s leaves a handshake ~16 ms */
#define SPW_HALF_OPEN_STAMP_SHIFT 28  /* stamps of 0.27 s */
#define SPW_HALF_OPEN_STAMP_MASK 511u /* they wrap after 137 s */
#define SPW_HALF_OPEN_AGE 239	      /* 64 s: Linux gives up on a SYN after 6 retries, 63 s */

struct spw_half_open {
	__u64 word[SPW_HALF_OPEN_WAYS];
};
SPW_ASSERT_SIZE(struct spw_half_open, 64);

/* Of hash bits that the tag leaves out. */
SPW_INLINE __u32 spw_half_open_index(__u64 hash)
{
	return (__u32)(hash >> 13) & (SPW_HALF_OPEN_BUCKETS - 1);
}

SPW_INLINE __u16 spw_half_open_stamp(__u64 now_ns)
{
	return (__u16)((now_ns >> SPW_HALF_OPEN_STAMP_SHIFT) & SPW_HALF_OPEN_STAMP_MASK);
}

SPW_INLINE __u64 spw_half_open_word(__u64 hash, __u16 unit, __u16 stamp)
{
	return (hash & 0xffffffffff000000ULL) | (__u64)(unit & 0x7fff) << 9 |
	       (stamp & SPW_HALF_OPEN_STAMP_MASK);
}

/* Index of the flow's word in its bucket, fresh or not, or -1. */
SPW_INLINE int spw_half_open_find(const struct spw_half_open *bucket, __u64 hash)
{
#pragma GCC unroll 8
	for (int i = 0; i < SPW_HALF_OPEN_WAYS; i++) {
		__u64 word = bucket->word[i];

		if ((word ^ hash) >> 24 == 0 && word != 0)
			return i;
	}
	return -1;
}

/* Unit in a word that was found, or SPW_NO_UNIT when it is too old to be of this handshake. */
SPW_INLINE __u16 spw_half_open_unit(__u64 word, __u16 stamp)
{
	if (((__u32)stamp - (__u32)word) % (SPW_HALF_OPEN_STAMP_MASK + 1) > SPW_HALF_OPEN_AGE)
		return SPW_NO_UNIT;
	return (__u16)(word >> 9) & 0x7fff;
}

/* Puts a word first; those before the first empty place, or else all but the oldest, move back by one.
 * From the back, so that a reader on another CPU, who goes forward, meets each of them. */
SPW_INLINE void spw_half_open_push(struct spw_half_open *bucket, __u64 word)
{
	__u64 taken = 1, moved = 0; /* words that move: up to the first empty place, at most all but one */

#pragma GCC unroll 8
	for (int i = 0; i < SPW_HALF_OPEN_WAYS - 1; i++) {
		taken &= 1 - spw_is_zero(bucket->word[i] >> 1);
		moved += taken;
	}
#pragma GCC unroll 8
	for (int i = SPW_HALF_OPEN_WAYS - 1; i > 0; i--)
		bucket->word[i] =
		    spw_select(spw_less((__u64)i, moved + 1), bucket->word[i - 1], bucket->word[i]);
	bucket->word[0] = word;
}
