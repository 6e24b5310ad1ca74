/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Half-open table: TCP handshakes that are not complete yet, and their units. Small enough to stay in cache,
 * and read by SYNs, by FINs and RSTs, and by flows whose entry in the flow table is not settled or not
 * written yet, never by other packets.
 *
 * A bucket is one cache line of 8 words in two parts:
 *
 *   kept    handshakes that leave the ring. A word that is younger than SPW_HALF_OPEN_KEPT is never
 *           overwritten: where all of them are, the next SYN stays on the ring. So a flood makes no handshake
 *           fail whose ACK comes within 1.9 s; it costs newcomers the policy's choice, not their connection.
 *   passing handshakes on the ring, newest first, so that a SYN that comes again meets the same unit though
 *           the policy would by now choose another; and those that were completed, by which a FIN or RST
 *           shows that it knows its connection. Overwritten at will; a packet that finds none is on the
 *           ring, where they are, or has an entry.
 *
 * One entry is one word: tag 24 | number 16 | unit 15 | stamp 9. All-zero: empty; the one handshake whose
 * word would be that has the stamp before. The number is the upper half of the SYN's sequence number; an ACK
 * proves itself by a sequence number from there on, within 128 KiB. Forged without knowledge of it: one
 * packet in 2^15. Tag, number and bucket tell handshakes apart by 53 bits. Words that are kept change by
 * compare-and-swap.
 *
 * Beside 8,000 SYNs a second that are never completed, 98 % of the newcomers find a place, beside 16,000 85 %
 * (Erlang's loss formula: six places a bucket, 2.3 s each); beyond, whoever comes first, 21,000 a second.
 * Nothing tells a forged SYN from a client's, so no fairness between sources helps: the forger has them all.
 */
#pragma once

#include "types.h"

#define SPW_HALF_OPEN_WAYS 8
#define SPW_HALF_OPEN_KEPT_WAYS 6     /* the first of them */
#define SPW_HALF_OPEN_BUCKETS 8192    /* 512 KiB; a quarter of it would spare each SYN some 35 ns */
#define SPW_HALF_OPEN_STAMP_SHIFT 28  /* stamps of 0.27 s */
#define SPW_HALF_OPEN_STAMP_MASK 511u /* they wrap after 137 s */
#define SPW_HALF_OPEN_AGE 239	      /* 64 s: Linux gives up on a SYN after 6 retries, 63 s */
/* 1.9 to 2.1 s, so that a SYN that comes again after a second finds its word and makes it young. */
#define SPW_HALF_OPEN_KEPT 8

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

/* isn: the SYN's sequence number, host order. */
SPW_INLINE __u64 spw_half_open_word(__u64 hash, __u32 isn, __u16 unit, __u16 stamp)
{
	__u64 word = (hash & 0xffffff0000000000ULL) | (__u64)(isn >> 16) << 24 | (__u64)(unit & 0x7fff) << 9 |
		     (stamp & SPW_HALF_OPEN_STAMP_MASK);

	return word ? word : SPW_HALF_OPEN_STAMP_MASK;
}

/* Index of the word of the handshake that this SYN began, fresh or not, or -1. */
SPW_INLINE int spw_half_open_find(const struct spw_half_open *bucket, __u64 hash, __u32 isn)
{
	__u64 wanted = spw_half_open_word(hash, isn, 0, 0);

#pragma GCC unroll 8
	for (int i = 0; i < SPW_HALF_OPEN_WAYS; i++) {
		__u64 word = bucket->word[i];

		if ((word ^ wanted) >> 24 == 0 && word != 0)
			return i;
	}
	return -1;
}

/* The word of the handshake that a packet with this sequence number goes on from, or 0. Itself, not where it
 * is: another CPU may put another flow's there. */
SPW_INLINE __u64 spw_half_open_proof(const struct spw_half_open *bucket, __u64 hash, __u32 sequence)
{
	__u32 number = (sequence - 1) >> 16;

#pragma GCC unroll 8
	for (int i = 0; i < SPW_HALF_OPEN_WAYS; i++) {
		__u64 word = bucket->word[i];

		if ((word ^ hash) >> 40 == 0 && ((number - (__u32)(word >> 24)) & 0xffff) <= 1 && word != 0)
			return word;
	}
	return 0;
}

/* A word by up to so many stamps later is young: it was stamped by a clock that is further on, be it another
 * CPU's, or the precise one, which a stolen CPU's coarse one may lag behind by far. 1.07 s. */
#define SPW_HALF_OPEN_AHEAD 4

/* 1 if the word was stamped more than `stamps` ago. */
SPW_INLINE int spw_half_open_is_older(__u64 word, __u16 stamp, __u32 stamps)
{
	return (((__u32)stamp - (__u32)word + SPW_HALF_OPEN_AHEAD) & SPW_HALF_OPEN_STAMP_MASK) >
	       stamps + SPW_HALF_OPEN_AHEAD;
}

/* Unit in a word that was found, or SPW_NO_UNIT when it is too old to be of this handshake. */
SPW_INLINE __u16 spw_half_open_unit(__u64 word, __u16 stamp)
{
	if (spw_half_open_is_older(word, stamp, SPW_HALF_OPEN_AGE))
		return SPW_NO_UNIT;
	return (__u16)(word >> 9) & 0x7fff;
}

/* The same of a word that may since have become another flow's, or none's. */
SPW_INLINE __u16 spw_half_open_unit_of(__u64 word, __u64 hash, __u16 stamp)
{
	if (word == 0 || (word ^ hash) >> 40 != 0)
		return SPW_NO_UNIT;
	return spw_half_open_unit(word, stamp);
}

/* Index of a place for a word to be kept, or -1 where all are young. */
SPW_INLINE int spw_half_open_room(const struct spw_half_open *bucket, __u16 stamp)
{
#pragma GCC unroll 6
	for (int i = 0; i < SPW_HALF_OPEN_KEPT_WAYS; i++) {
		__u64 word = bucket->word[i];

		if (word == 0 || spw_half_open_is_older(word, stamp, SPW_HALF_OPEN_KEPT))
			return i;
	}
	return -1;
}

/* Index of a young word that is kept for a handshake of the same flow, whatever its number, or -1. */
SPW_INLINE int spw_half_open_sibling(const struct spw_half_open *bucket, __u64 hash, __u16 stamp)
{
#pragma GCC unroll 6
	for (int i = 0; i < SPW_HALF_OPEN_KEPT_WAYS; i++) {
		__u64 word = bucket->word[i];

		if ((word ^ hash) >> 40 == 0 && word != 0 &&
		    !spw_half_open_is_older(word, stamp, SPW_HALF_OPEN_KEPT))
			return i;
	}
	return -1;
}

/* Writes another word of the same handshake, or none (0), over its own; not over another's that took the
 * place since. 1: done. */
SPW_INLINE int spw_half_open_replace(__u64 *place, __u64 own, __u64 word)
{
	__u64 old = *place;

	return (old ^ own) >> 24 == 0 && __sync_val_compare_and_swap(place, old, word) == old;
}

/* Takes the place, unless another CPU just did. */
SPW_INLINE int spw_half_open_keep(__u64 *place, __u64 word, __u16 stamp)
{
	__u64 old = *place;

	if (old != 0 && (old ^ word) >> 24 != 0 && !spw_half_open_is_older(old, stamp, SPW_HALF_OPEN_KEPT))
		return 0;
	return __sync_val_compare_and_swap(place, old, word) == old;
}

/* Puts a word first of those that pass; those before the first empty place, or else all but the oldest, move
 * back by one. From the back, so that a reader on another CPU, who goes forward, meets each of them. */
SPW_INLINE void spw_half_open_push(struct spw_half_open *bucket, __u64 word)
{
	__u64 taken = 1, moved = 0; /* words that move: up to the first empty place, at most all but one */

#pragma GCC unroll 8
	for (int i = SPW_HALF_OPEN_KEPT_WAYS; i < SPW_HALF_OPEN_WAYS - 1; i++) {
		taken &= 1 - spw_is_zero(bucket->word[i] >> 1);
		moved += taken;
	}
#pragma GCC unroll 8
	for (int i = SPW_HALF_OPEN_WAYS - 1; i > SPW_HALF_OPEN_KEPT_WAYS; i--)
		bucket->word[i] = spw_select(spw_less((__u64)(i - SPW_HALF_OPEN_KEPT_WAYS), moved + 1),
					     bucket->word[i - 1], bucket->word[i]);
	bucket->word[SPW_HALF_OPEN_KEPT_WAYS] = word;
}

/* The handshake whose word this is has been given up. Nothing if it is there no more. */
SPW_INLINE void spw_half_open_forget(struct spw_half_open *bucket, __u64 own)
{
#pragma GCC unroll 1
	for (int i = 0; i < SPW_HALF_OPEN_WAYS; i++) {
		if (bucket->word[i] == own)
			__sync_val_compare_and_swap(&bucket->word[i], own, 0);
	}
}

/* A packet of the flow has come that goes on from none of its handshakes, so it is established, on `home`:
 * those that lead elsewhere are forged, or of a connection that was given up. Left there, one would be met
 * some time by the numbers of a flow that sends much. */
SPW_INLINE void spw_half_open_refute(struct spw_half_open *bucket, __u64 hash, __u16 home)
{
#pragma GCC unroll 1
	for (int i = 0; i < SPW_HALF_OPEN_WAYS; i++) {
		__u64 word = bucket->word[i];

		if ((word ^ hash) >> 40 == 0 && word != 0 && ((__u16)(word >> 9) & 0x7fff) != home)
			__sync_val_compare_and_swap(&bucket->word[i], word, 0);
	}
}

/* The handshake whose word this is has been completed: no other of the flow counts any more. */
SPW_INLINE void spw_half_open_complete(struct spw_half_open *bucket, __u64 own)
{
#pragma GCC unroll 1
	for (int i = 0; i < SPW_HALF_OPEN_WAYS; i++) {
		__u64 word = bucket->word[i];

		if ((word ^ own) >> 40 == 0 && word != 0)
			__sync_val_compare_and_swap(&bucket->word[i], word, 0);
	}
	spw_half_open_push(bucket, own);
}
