/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The ring: hash -> default unit. A flow on its slot's owner needs no entry in the flow table: any
 * switch that holds the ring, after any restart, computes the same answer. What the hash cannot say
 * is remembered elsewhere; what moves is remembered here:
 *
 *   owner   where packets without an entry go
 *   next    where new flows go by default; differs from owner while the slot is *moved*
 *
 * A pool change sets `next`. From then on flows of the slot get entries, the established ones, which stay on
 * the owner, with their next packet. The owner stays until the idle time has passed since the last entry-less
 * packet that found no place for its entry, or since the move (spillwayd then settles the slot: owner =
 * next), or until it dies (at once). So established flows never meet another unit, and packets that belong to
 * none do not keep the slot from settling.
 */
#pragma once

#include "hash.h"
#include "types.h"

/*
 * Slots of a ring whose pool does not say its number. Prime. One number for all pools, so that what a pool
 * was earlier shows in no ring: a size that follows the number of units differs between a switch that grew
 * past a bound and one that began beyond it. Of this one shares are within 1 % for 164 equal units and 10 %
 * for 1641; it takes 128 KiB and half a millisecond to lay, and SPW_MAX_SERVICES of it 128 MiB. 65537, as
 * others have it, would be within 1 % for 655 units, at four times the memory and cache, and five times the
 * time.
 */
#define SPW_RING_SLOTS 16411

struct spw_ring_slot {
	__u16 owner;
	__u16 next;
	__u16 entryless_tick; /* last packet of a flow without entry, kept only while moved; 0: none */
	__u16 deviating_tick; /* last sight of a flow of this slot that has an entry; 0: none live */
};
SPW_ASSERT_SIZE(struct spw_ring_slot, 8);

SPW_INLINE __u32 spw_ring_index(__u64 hash, __u32 slots)
{
	return spw_scale((__u32)hash, slots);
}

/*
 * The further slots of a flow: number 1 is p2c's other candidate; the rest are asked when neither may take
 * it. They lie a golden ratio of the ring apart, so that runs of slots that name one server, as a split
 * ring has, are soon left behind; in a mixed ring each is a draw of its own.
 */
SPW_INLINE __u32 spw_ring_further_index(__u64 hash, __u32 number, __u32 slots)
{
	return spw_scale((__u32)(hash >> 32) * 0x9e3779b1u + (number - 1) * 0x9e3779b1u, slots);
}

SPW_INLINE __u32 spw_ring_second_index(__u64 hash, __u32 slots)
{
	return spw_ring_further_index(hash, 1, slots);
}

/*
 * The hash to place one request by when its flow binds nothing (affinity none): the flow's own, moved
 * on by the golden ratio with each draw. So requests spread over the ring by its shares however few
 * sockets send them; by the flow's hash alone, 64 sockets put 25 % more on one of two servers.
 */
SPW_INLINE __u64 spw_spread(__u64 hash, __u32 draw)
{
	__u32 low = (__u32)hash + draw * 0x9e3779b1u;
	__u32 high = (__u32)(hash >> 32) + draw * 0x85ebca6bu;

	return (__u64)high << 32 | low;
}

/* 16-bit tick that is never 0, so that 0 can say "none". Wraps after 19.5 hours. */
SPW_INLINE __u16 spw_slot_tick(__u32 tick)
{
	__u16 t = (__u16)tick;

	return t ? t : 1;
}
