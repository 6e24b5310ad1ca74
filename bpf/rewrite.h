/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Rewriting addresses and checksums in place (RFC 1624, eqn. 3), and the hop count. Checksums are
 * adjusted, never recomputed: a packet that was damaged before stays damaged.
 */
#pragma once

#include "packet.h"

SPW_INLINE __u16 checksum_fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)~sum;
}

/* What replacing `words` 32-bit words adds to the sum. */
SPW_INLINE __u64 checksum_delta(const __u32 *from, const __u32 *to, int words)
{
	__u64 delta = 0;

#pragma unroll
	for (int i = 0; i < words; i++)
		delta += (__u64)(__u32)~from[i] + to[i];
	return delta;
}

SPW_INLINE __u16 checksum_adjust(__u16 check, __u64 delta)
{
	return checksum_fold((__u64)(__u16)~check + delta);
}

/* The transport checksum covers the addresses. UDP over IPv4 may have none (0); RFC 768: a sum that
 * comes out as 0 is sent as all ones. */
SPW_INLINE void adjust_transport(struct packet *p, __u64 delta)
{
	if (p->proto == IPPROTO_TCP) {
		struct tcphdr *tcp = p->l4;

		if ((void *)(tcp + 1) > p->end) /* parsed already; the verifier has forgotten */
			return;
		tcp->check = checksum_adjust(tcp->check, delta);
	} else {
		struct udphdr *udp = p->l4;

		if ((void *)(udp + 1) > p->end || udp->check == 0)
			return;
		udp->check = checksum_adjust(udp->check, delta);
		if (udp->check == 0)
			udp->check = 0xffff;
	}
}

/* 0: the hop count is used up; the host's stack answers with "time exceeded". */
SPW_INLINE int spend_hop(struct packet *p, int family)
{
	if (family == 4) {
		struct iphdr *ip = p->l3;

		if (ip->ttl <= 1)
			return 0;
		ip->ttl--;
		/* The checksum grows by the 0x0100 that the header lost. */
		ip->check = checksum_adjust(ip->check, (__u16)~bpf_htons(0x0100));
	} else {
		struct ipv6hdr *ip = p->l3;

		if (ip->hop_limit <= 1)
			return 0;
		ip->hop_limit--;
	}
	return 1;
}

/* Sets the IP header's destination or source; returns the delta for the transport checksum. */
SPW_INLINE __u64 replace_address(struct packet *p, int family, int destination, const __u32 *to)
{
	if (family == 4) {
		struct iphdr *ip = p->l3;
		__u32 from = destination ? ip->daddr : ip->saddr;
		__u64 delta = checksum_delta(&from, to, 1);

		if (destination)
			ip->daddr = to[0];
		else
			ip->saddr = to[0];
		ip->check = checksum_adjust(ip->check, delta);
		return delta;
	} else {
		struct ipv6hdr *ip = p->l3;
		const __u32 *from = destination ? p->dst : p->src;

		__builtin_memcpy(destination ? &ip->daddr : &ip->saddr, to, 16);
		return checksum_delta(from, to, 4);
	}
}
