/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Parsing: a frame -> where its headers are and which flow it belongs to. Up to two VLAN tags, IPv4
 * with options, IPv6 with up to three extension headers, TCP, UDP, ICMP. Nothing is copied that the
 * packet path does not need; pointers stay valid because no mode of ours moves the packet's head.
 */
#pragma once

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "core/types.h"

#define VLAN_DEPTH 2
#define V6_EXTENSIONS 3
#define IP_FRAGMENT_BITS 0x3fff /* more-fragments and offset */

enum parsed {
	PARSED_FLOW,	  /* TCP or UDP, ports known */
	PARSED_ICMP,	  /* ICMP or ICMPv6; l4 points at its 8-byte header */
	PARSED_FRAGMENT,  /* addresses known, ports not to be trusted */
	PARSED_MALFORMED, /* addresses known, the rest cut short or contradictory */
	PARSED_FOREIGN,	  /* not for us to understand */
};

struct tcp_bits {
	__u8 fin_rst; /* FIN or RST is set */
	__u8 syn;     /* SYN without ACK */
};

struct packet {
	struct ethhdr *eth;
	void *l3;
	void *l4;
	void *end;
	__u32 src[4], dst[4]; /* network order; IPv4 in [0] */
	__u32 ports;	      /* source in the low half, destination in the high, network order */
	__u32 bytes;
	struct tcp_bits tcp;
	__u8 proto;
};

struct vlan_tag {
	__be16 tci;
	__be16 proto;
};

SPW_INLINE __u16 packet_dport(const struct packet *p)
{
	return (__u16)(p->ports >> 16);
}

SPW_INLINE __u16 packet_sport(const struct packet *p)
{
	return (__u16)p->ports;
}

/* Ethernet and VLAN tags. Returns the ethertype (network order) and sets l3, or 0 when cut short. */
SPW_INLINE __be16 parse_ethernet(struct xdp_md *ctx, struct packet *p)
{
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;
	void *cursor = eth + 1;
	__be16 proto;

	p->end = (void *)(long)ctx->data_end;
	if (cursor > p->end)
		return 0;
	p->eth = eth;
	p->bytes = p->end - data;
	proto = eth->h_proto;
#pragma unroll
	for (int i = 0; i < VLAN_DEPTH; i++) {
		struct vlan_tag *tag = cursor;

		if (proto != bpf_htons(ETH_P_8021Q) && proto != bpf_htons(ETH_P_8021AD))
			break;
		if ((void *)(tag + 1) > p->end)
			return 0;
		proto = tag->proto;
		cursor = tag + 1;
	}
	p->l3 = cursor;
	return proto;
}

/* Transport header at p->l4; p->proto says which. `bytes`: what the IP packet holds from there on, so
 * that a header is never read from the frame's padding. `icmp`: the family's own ICMP. */
SPW_INLINE enum parsed parse_transport(struct packet *p, __s32 bytes, __u8 icmp)
{
	if (p->proto == IPPROTO_TCP) {
		struct tcphdr *tcp = p->l4;

		if ((void *)(tcp + 1) > p->end || bytes < (__s32)sizeof(*tcp) || tcp->doff < 5)
			return PARSED_MALFORMED;
		p->ports = *(__u32 *)tcp;
		p->tcp.syn = tcp->syn && !tcp->ack;
		p->tcp.fin_rst = tcp->fin || tcp->rst;
		return PARSED_FLOW;
	}
	if (p->proto == IPPROTO_UDP) {
		struct udphdr *udp = p->l4;

		if ((void *)(udp + 1) > p->end || bpf_ntohs(udp->len) < sizeof(*udp) ||
		    bpf_ntohs(udp->len) > bytes)
			return PARSED_MALFORMED;
		p->ports = *(__u32 *)udp;
		return PARSED_FLOW;
	}
	if (p->proto == icmp)
		return p->l4 + 8 > p->end || bytes < 8 ? PARSED_MALFORMED : PARSED_ICMP;
	return PARSED_FOREIGN;
}

SPW_INLINE enum parsed parse_v4(struct packet *p)
{
	struct iphdr *ip = p->l3;
	__u32 header, total;

	if ((void *)(ip + 1) > p->end)
		return PARSED_FOREIGN;
	p->src[0] = ip->saddr;
	p->dst[0] = ip->daddr;
	header = ip->ihl * 4;
	total = bpf_ntohs(ip->tot_len);
	if (ip->version != 4 || header < sizeof(*ip) || total < header || p->l3 + total > p->end)
		return PARSED_MALFORMED;
	p->proto = ip->protocol;
	p->l4 = p->l3 + header;
	if (ip->frag_off & bpf_htons(IP_FRAGMENT_BITS))
		return PARSED_FRAGMENT;
	return parse_transport(p, total - header, IPPROTO_ICMP);
}

SPW_INLINE enum parsed parse_v6(struct packet *p)
{
	struct ipv6hdr *ip = p->l3;
	void *cursor = ip + 1;
	__s32 bytes;
	__u8 next;

	if (cursor > p->end)
		return PARSED_FOREIGN;
	__builtin_memcpy(p->src, &ip->saddr, 16);
	__builtin_memcpy(p->dst, &ip->daddr, 16);
	if (ip->version != 6 || cursor + bpf_ntohs(ip->payload_len) > p->end)
		return PARSED_MALFORMED;
	bytes = bpf_ntohs(ip->payload_len);
	next = ip->nexthdr;
#pragma unroll
	for (int i = 0; i < V6_EXTENSIONS; i++) {
		__u8 *option = cursor;

		if (next == IPPROTO_FRAGMENT)
			return PARSED_FRAGMENT;
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS)
			break;
		if ((void *)(option + 8) > p->end)
			return PARSED_MALFORMED;
		next = option[0];
		cursor += (option[1] + 1) * 8;
		bytes -= (option[1] + 1) * 8;
	}
	if (next == IPPROTO_FRAGMENT)
		return PARSED_FRAGMENT;
	p->proto = next;
	p->l4 = cursor;
	return parse_transport(p, bytes, IPPROTO_ICMPV6);
}
