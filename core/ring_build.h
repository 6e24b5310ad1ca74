/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Fills a ring with unit ids. Not called in the kernel; the caller owns all memory.
 *
 * spw_ring_build_maglev: weighted Maglev (Eisenbud et al., "Maglev", NSDI 2016, section 3.4): every
 * unit has its own permutation of the slots and takes its next free one when its turn comes; a unit
 * of weight w gets w / w_max turns a round. Few slots move when the set changes; shares are within
 * 1 % of the weights for slots > 100 * n and equal weights.
 *
 * spw_ring_build_split: contiguous runs in proportion to weight, as replicated ECMP entries are laid
 * (WCMP, EuroSys 2014; ECMP when the weights are equal). Exact shares; a change moves many slots.
 */
#pragma once

#include "types.h"

struct spw_ring_member {
	__u16 unit; /* unit id */
	__u16 pad;
	__u32 weight; /* > 0 */
	__u64 name;   /* stable identity, e.g. a hash of pool/server/unit: seeds the permutation */
	/* working space of the build */
	__u32 at, skip;
	__u64 credit;
};

/* 64-bit finisher (Stafford's mix 13), used to derive a permutation from a member's name. */
SPW_INLINE __u64 spw_mix64(__u64 x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebULL;
	x ^= x >> 31;
	return x;
}

/* slots: m entries, m prime; members: n > 0. Leaves every entry set. Cost: O(m log m) expected. */
SPW_INLINE void spw_ring_build_maglev(__u16 *slots, __u32 m, struct spw_ring_member *members, __u32 n)
{
	__u32 heaviest = 0, filled = 0;

	if (m < 2)
		return; /* no prime */
	for (__u32 i = 0; i < m; i++)
		slots[i] = SPW_NO_UNIT;
	for (__u32 i = 0; i < n; i++) {
		struct spw_ring_member *u = &members[i];

		u->at = (__u32)(spw_mix64(u->name) % m);
		u->skip = (__u32)(spw_mix64(u->name + 0x9e3779b97f4a7c15ULL) % (m - 1)) + 1;
		u->credit = 0;
		if (u->weight > heaviest)
			heaviest = u->weight;
	}
	if (heaviest == 0)
		return;
	while (filled < m) {
		for (__u32 i = 0; i < n && filled < m; i++) {
			struct spw_ring_member *u = &members[i];

			u->credit += u->weight;
			if (u->credit < heaviest)
				continue;
			u->credit -= heaviest;
			while (slots[u->at] != SPW_NO_UNIT)
				u->at = (__u32)(((__u64)u->at + u->skip) % m);
			slots[u->at] = u->unit;
			filled++;
		}
	}
}

/* slots: m entries; members: n > 0. Rounds so that every prefix is within one slot of its share. */
SPW_INLINE void spw_ring_build_split(__u16 *slots, __u32 m, const struct spw_ring_member *members, __u32 n)
{
	__u64 total = 0, sum = 0;
	__u32 from = 0;

	for (__u32 i = 0; i < m; i++)
		slots[i] = SPW_NO_UNIT;
	for (__u32 i = 0; i < n; i++)
		total += members[i].weight;
	for (__u32 i = 0; i < n && total; i++) {
		sum += members[i].weight;
		for (__u32 to = (__u32)(sum * m / total); from < to; from++)
			slots[from] = members[i].unit;
	}
}
