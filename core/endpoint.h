/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Endpoint tables: (address, port, protocol) -> what the switch does there. One 64-byte line holds
 * the key and all that the packet path needs to know, so a look-up is one cache line.
 *
 * Two tables share the layout: `services`, keyed by a packet's destination (VIPs and the report
 * address), and `replies`, keyed by its source (units of NAT services, to be rewritten to the VIP).
 *
 * Open addressing with linear probing over SPW_ENDPOINT_PROBES lines. Writer: spillwayd alone, which
 * fills a line while its kind is SPW_ENDPOINT_GONE and sets the kind last. A removed line stays
 * `gone` so that probes walk past it.
 */
#pragma once

#include "types.h"

enum spw_endpoint_kind {
	SPW_ENDPOINT_EMPTY = 0, /* ends a probe */
	SPW_ENDPOINT_GONE,	/* removed or being written: skipped */
	SPW_ENDPOINT_SERVICE,
	SPW_ENDPOINT_REPORT, /* the switch's report address and port */
	SPW_ENDPOINT_VIP,    /* port 0, protocol 0: the address belongs to some service */
	SPW_ENDPOINT_UNIT,   /* in `replies`: a NAT unit's DIP and port */
};

enum spw_mode { SPW_MODE_NAT = 0, SPW_MODE_DSR_L2 };
enum spw_affinity { SPW_AFFINITY_CONNECTION = 0, SPW_AFFINITY_NONE };

#define SPW_ENDPOINT_PROBES 16

/* In `replies`, beside the protocol of a line with port 0: the address is a NAT unit's, some port of which is
 * a service's. Asked of fragments, which may have no ports. */
#define SPW_ENDPOINT_FRAGMENTS 0x80

struct spw_endpoint {
	__u32 addr[4]; /* network order; IPv4 in addr[0], the rest 0 */
	__u16 port;    /* network order */
	__u8 proto;    /* IPPROTO_TCP, IPPROTO_UDP; 0 for SPW_ENDPOINT_VIP */
	__u8 family;   /* 4 or 6 */
	__u8 kind;
	__u8 mode;
	__u8 affinity;
	__u8 server_policy;
	__u8 unit_policy;
	__u8 pad0;
	__u16 service;	   /* index of the service's counters */
	__u32 ring_offset; /* the service's ring in the `ring_slots` map */
	__u32 ring_slots;
	__u32 vip[4];	     /* SPW_ENDPOINT_UNIT: the address replies are given */
	__u16 idle_ticks;    /* a flow unseen for longer has ended */
	__u16 closing_ticks; /* the same after FIN or RST */
	__u32 pad1[2];
};
SPW_ASSERT_SIZE(struct spw_endpoint, 64);

/* Line at which the probe for a key starts; mask = lines - 1, lines a power of two. */
SPW_INLINE __u32 spw_endpoint_home(const __u32 *addr, __u16 port, __u8 proto, __u32 mask)
{
	__u64 h = (__u64)(addr[0] ^ addr[1] * 0x85ebca6bu ^ addr[2] * 0xc2b2ae35u ^ addr[3]) |
		  (__u64)(__u32)(port << 8 | proto) << 32;

	h *= 0x9e3779b97f4a7c15ULL;
	return (__u32)(h >> 40) & mask;
}

SPW_INLINE int spw_endpoint_matches(const struct spw_endpoint *e, const __u32 *addr, __u16 port, __u8 proto,
				    __u8 family)
{
	if (e->addr[0] != addr[0] || e->port != port || e->proto != proto || e->family != family)
		return 0;
	return family == 4 || (e->addr[1] == addr[1] && e->addr[2] == addr[2] && e->addr[3] == addr[3]);
}
