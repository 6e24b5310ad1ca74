/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Contract between bench_wrapper.bpf.c and bench/switch: the walk over flows, the frame's template,
 * and how a flow's number becomes its addresses (both sides compute it).
 */
#pragma once

#include "core/byte_order.h"
#include "core/report.h"

/* A walk over `flows` distinct flows, computed: each step adds `stride`, coprime to `flows` and near
 * the golden ratio of it, so that neighbours in time are strangers in the table. */
struct spw_bench_walk {
	__u32 at;     /* in [0, flows) */
	__u32 stride; /* in [0, flows) */
	__u32 flows;
	__u32 first; /* number of the first flow */
};

SPW_INLINE __u32 spw_bench_step(struct spw_bench_walk *walk)
{
	__u32 flow = walk->first + walk->at, next = walk->at + walk->stride;

	walk->at = next >= walk->flows ? next - walk->flows : next;
	return flow;
}

/* Client address and port of a flow, network order: 24 bits of address, the rest in the port. */
#define SPW_BENCH_CLIENTS 0x0a000000u /* 10.0.0.0/8; IPv6: the last word of the client's address */

SPW_INLINE __u32 spw_bench_client(__u32 flow)
{
	return spw_be32(SPW_BENCH_CLIENTS | (flow & 0xffffff));
}

SPW_INLINE __u16 spw_bench_client_port(__u32 flow)
{
	return spw_be16(0x8000 | (flow >> 24));
}

#define SPW_BENCH_WORDS 20 /* IPv6 and TCP: 15; a report over IPv4: 17 */

/* Headers as they stand before each packet; the rest of the frame no program writes. */
struct spw_bench_frame {
	__u64 eth; /* 14 bytes of Ethernet, cut as they are stored */
	__u32 eth_8;
	__u16 eth_12;
	__u16 pad;
	__u32 words[SPW_BENCH_WORDS];
};

/* Valid reports, as the data plane meets them: entry i is of unit i mod units. A walk goes through them
 * once, as each must be newer than the last of its unit. */
#define SPW_BENCH_REPORTS 1024
#define SPW_BENCH_REPORT_LAPS 8

struct spw_bench_report {
	__u32 words[sizeof(struct spw_report_wire) / 4];
};
