/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Keyed hash of a flow's 5-tuple.
 *
 * NH (Black, Halevi, Krawczyk, Krovetz, Rogaway: "UMAC", CRYPTO '99): the sum of products of keyed
 * 32-bit words. For any two distinct tuples the probability over the key that they collide is at
 * most 2^-32, so flows chosen without the key cannot be made to collide; a multiply-xorshift
 * finisher spreads the sum over all 64 bits. IPv4 takes two products, IPv6 five.
 *
 * Words are used as they lie in the packet (network order): every user hashes the same bytes.
 */
#pragma once

#include "types.h"

struct spw_seed {
	__u32 key[10]; /* secret, uniform */
	__u64 mix;     /* secret, uniform; keeps the finisher from being inverted by outsiders */
};
SPW_ASSERT_SIZE(struct spw_seed, 48);

SPW_INLINE __u64 spw_nh_pair(__u32 a, __u32 key_a, __u32 b, __u32 key_b)
{
	return (__u64)(__u32)(a + key_a) * (__u32)(b + key_b);
}

SPW_INLINE __u64 spw_hash_finish(__u64 h, __u64 mix)
{
	h ^= mix;
	h ^= h >> 33;
	h *= 0xff51afd7ed558ccdULL;
	h ^= h >> 33;
	h *= 0xc4ceb9fe1a85ec53ULL;
	h ^= h >> 33;
	return h;
}

/* ports: source port in the low 16 bits, destination port in the high, both network order. */
SPW_INLINE __u64 spw_hash_v4(const struct spw_seed *seed, __u32 src, __u32 dst, __u32 ports, __u8 proto)
{
	__u64 h = spw_nh_pair(src, seed->key[0], dst, seed->key[1]) +
		  spw_nh_pair(ports, seed->key[2], proto, seed->key[3]);

	return spw_hash_finish(h, seed->mix);
}

SPW_INLINE __u64 spw_hash_v6(const struct spw_seed *seed, const __u32 *src, const __u32 *dst, __u32 ports,
			     __u8 proto)
{
	__u64 h = spw_nh_pair(src[0], seed->key[0], dst[0], seed->key[1]) +
		  spw_nh_pair(src[1], seed->key[2], dst[1], seed->key[3]) +
		  spw_nh_pair(src[2], seed->key[4], dst[2], seed->key[5]) +
		  spw_nh_pair(src[3], seed->key[6], dst[3], seed->key[7]) +
		  spw_nh_pair(ports, seed->key[8], proto, seed->key[9]);

	return spw_hash_finish(h, seed->mix);
}

/* Maps 32 uniform bits onto [0, n) without a division. */
SPW_INLINE __u32 spw_scale(__u32 uniform, __u32 n)
{
	return (__u32)(((__u64)uniform * n) >> 32);
}
