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

#define V6_EXTENSIONS 3
#define V6_EXTENSION_BYTES 0x1fff /* mask: three of 2,048 bytes fit */
#define IP_FRAGMENT_BITS 0x3fff	  /* more-fragments and offset */

enum parsed {
	PARSED_FLOW,	  /* TCP or UDP, ports known */
	PARSED_ICMP,	  /* ICMP or ICMPv6; l4 points at its 8-byte header */
	PARSED_FRAGMENT,  /* addresses known, ports not to be trusted; l4 points behind the IPv4 header or
			     at the IPv6 fragment header */
	PARSED_MALFORMED, /* addresses known, the rest cut short or contradictory */
	PARSED_FOREIGN,	  /* not for us to understand */
};

#define TCP_FIN 1
#define TCP_RST 2

struct tcp_bits {
	__u32 sequence; /* host order */
	__u8 ends;	/* TCP_FIN | TCP_RST, those that are set */
	__u8 syn;	/* SYN without ACK */
	__u8 data;	/* it carries some */
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

#define VLAN_TAG_BYTES 4

/* A length from a header. Masked, as the verifier of Linux 6.1 takes what a byte swap yields for
 * unbounded; opaque, or the compiler drops the mask. */
SPW_INLINE __u32 host_length(__be16 value)
{
	__u32 length = bpf_ntohs(value);

	SPW_OPAQUE(length);
	return length & 0xffff;
}

SPW_INLINE __u16 packet_dport(const struct packet *p)
{
	return (__u16)(p->ports >> 16);
}

SPW_INLINE __u16 packet_sport(const struct packet *p)
{
	return (__u16)p->ports;
}

SPW_INLINE __u32 is_vlan_tag(__be16 ethertype)
{
	return (__u32)(spw_is_zero(ethertype ^ bpf_htons(ETH_P_8021Q)) |
		       spw_is_zero(ethertype ^ bpf_htons(ETH_P_8021AD)));
}

/*
 * Ethernet and up to two VLAN tags. Returns the ethertype (network order) and sets l3, or 0 when the
 * frame is too short for IP behind them. Without a branch per tag: the verifier would walk all that
 * follows once for each place where the IP header can begin.
 */
SPW_INLINE __be16 parse_ethernet(struct xdp_md *ctx, struct packet *p)
{
	void *data = (void *)(long)ctx->data;
	const __be16 *types = data + ETH_ALEN * 2; /* one, or each second: tag, its value, type */
	__u32 outer, inner;

	p->end = (void *)(long)ctx->data_end;
	if (data + sizeof(struct ethhdr) + 2 * VLAN_TAG_BYTES > p->end)
		return 0;
	p->eth = data;
	p->bytes = p->end - data;
	outer = is_vlan_tag(types[0]);
	inner = outer & is_vlan_tag(types[2]);
	p->l3 = data + sizeof(struct ethhdr) + (outer + inner) * VLAN_TAG_BYTES;
	return (__be16)spw_select(inner, types[4], spw_select(outer, types[2], types[0]));
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
		p->tcp.ends = tcp->fin | tcp->rst << 1;
		p->tcp.sequence = bpf_ntohl(tcp->seq);
		p->tcp.data = bytes > tcp->doff * 4;
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
	total = host_length(ip->tot_len);
	if (ip->version != 4 || header < sizeof(*ip) || total < header || p->l3 + total > p->end)
		return PARSED_MALFORMED;
	p->proto = ip->protocol;
	p->l4 = p->l3 + header;
	if (ip->frag_off & bpf_htons(IP_FRAGMENT_BITS))
		return PARSED_FRAGMENT;
	return parse_transport(p, total - header, IPPROTO_ICMP);
}

SPW_INLINE int is_v6_extension(__u8 next)
{
	return next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_DSTOPTS;
}

/*
 * Walks the extension headers from `offset` in the frame on: returns the bytes they take and, from
 * bit 16, the header that follows; -1 when they are cut short. Global, so that the verifier walks
 * what follows once, not for each number of headers.
 */
__attribute__((noinline)) int skip_v6_extensions(struct xdp_md *ctx, __u32 offset, __u32 next)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 bytes = 0;

#pragma nounroll
	for (int i = 0; i < V6_EXTENSIONS && is_v6_extension(next); i++) {
		__u8 *option = data + (offset & 0xff) + (bytes & V6_EXTENSION_BYTES);

		if ((void *)(option + 8) > end)
			return -1;
		next = option[0];
		bytes += (option[1] + 1) * 8;
	}
	return (int)(next << 16 | bytes);
}

SPW_INLINE enum parsed parse_v6(struct xdp_md *ctx, struct packet *p)
{
	struct ipv6hdr *ip = p->l3;
	__u32 bytes, extensions = 0;

	if ((void *)(ip + 1) > p->end)
		return PARSED_FOREIGN;
	__builtin_memcpy(p->src, &ip->saddr, 16);
	__builtin_memcpy(p->dst, &ip->daddr, 16);
	bytes = host_length(ip->payload_len);
	if (ip->version != 6 || (void *)(ip + 1) + bytes > p->end)
		return PARSED_MALFORMED;
	p->proto = ip->nexthdr;
	if (is_v6_extension(p->proto)) {
		int skipped = skip_v6_extensions(ctx, (void *)(ip + 1) - (void *)p->eth, p->proto);

		if (skipped < 0)
			return PARSED_MALFORMED;
		p->proto = (__u8)(skipped >> 16);
		extensions = skipped & V6_EXTENSION_BYTES;
	}
	p->l4 = (void *)(ip + 1) + extensions;
	if (p->proto == IPPROTO_FRAGMENT)
		return PARSED_FRAGMENT;
	return parse_transport(p, (__s32)(bytes - extensions), IPPROTO_ICMPV6);
}
