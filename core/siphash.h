/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * SipHash-2-4 with a 64-bit tag (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012), over
 * a message that is a whole number of 8-byte words: all that the load report needs.
 */
#pragma once

#include "types.h"

struct spw_siphash_key {
	__u64 k0, k1; /* the key's 16 bytes as two little-endian words */
};
SPW_ASSERT_SIZE(struct spw_siphash_key, 16);

/* key: 16 bytes, as a key file spells them. */
SPW_INLINE struct spw_siphash_key spw_siphash_key_of(const __u8 *key)
{
	struct spw_siphash_key words = {0, 0};

	for (int i = 0; i < 8; i++) {
		words.k0 |= (__u64)key[i] << (8 * i);
		words.k1 |= (__u64)key[8 + i] << (8 * i);
	}
	return words;
}

#define SPW_ROTL64(x, b) (((x) << (b)) | ((x) >> (64 - (b))))

#define SPW_SIPROUND(v0, v1, v2, v3)                                                                         \
	do {                                                                                                 \
		v0 += v1;                                                                                    \
		v1 = SPW_ROTL64(v1, 13);                                                                     \
		v1 ^= v0;                                                                                    \
		v0 = SPW_ROTL64(v0, 32);                                                                     \
		v2 += v3;                                                                                    \
		v3 = SPW_ROTL64(v3, 16);                                                                     \
		v3 ^= v2;                                                                                    \
		v0 += v3;                                                                                    \
		v3 = SPW_ROTL64(v3, 21);                                                                     \
		v3 ^= v0;                                                                                    \
		v2 += v1;                                                                                    \
		v1 = SPW_ROTL64(v1, 17);                                                                     \
		v1 ^= v2;                                                                                    \
		v2 = SPW_ROTL64(v2, 32);                                                                     \
	} while (0)

/* words: the message as little-endian words; count: known at compile time where speed matters. */
SPW_INLINE __u64 spw_siphash24(const struct spw_siphash_key *key, const __u64 *words, __u32 count)
{
	__u64 v0 = key->k0 ^ 0x736f6d6570736575ULL;
	__u64 v1 = key->k1 ^ 0x646f72616e646f6dULL;
	__u64 v2 = key->k0 ^ 0x6c7967656e657261ULL;
	__u64 v3 = key->k1 ^ 0x7465646279746573ULL;
	__u64 last = (__u64)(count * 8) << 56; /* the length byte; no tail bytes */

#pragma GCC unroll 8
	for (__u32 i = 0; i < count; i++) {
		v3 ^= words[i];
		SPW_SIPROUND(v0, v1, v2, v3);
		SPW_SIPROUND(v0, v1, v2, v3);
		v0 ^= words[i];
	}
	v3 ^= last;
	SPW_SIPROUND(v0, v1, v2, v3);
	SPW_SIPROUND(v0, v1, v2, v3);
	v0 ^= last;
	v2 ^= 0xff;
	SPW_SIPROUND(v0, v1, v2, v3);
	SPW_SIPROUND(v0, v1, v2, v3);
	SPW_SIPROUND(v0, v1, v2, v3);
	SPW_SIPROUND(v0, v1, v2, v3);
	return v0 ^ v1 ^ v2 ^ v3;
}
