/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * ICMP errors follow the flow they quote, so that path-MTU discovery and "port unreachable" work
 * through the VIP. The quoted packet went the other way: its source is the VIP when the error comes
 * from the client's side, its destination is the DIP when it comes from a NAT unit.
 *
 * Checksums. ICMP: the sum covers the quote; rewriting the quoted IPv4 address and its header's
 * checksum leaves it as it was. ICMPv6: no header checksum in the quote, and a pseudo-header around
 * it, so both addresses enter. The quoted transport checksum lies mostly beyond the 8 bytes that
 * must be quoted and is not checked by receivers; it stays.
 */
#pragma once

#include "forward.h"
#include "place.h"

#define ICMP_DEST_UNREACH 3
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAM_PROBLEM 12
#define ICMPV6_LAST_ERROR 127 /* types below 128 are errors (RFC 4443) */

struct icmp_header {
	__u8 type, code;
	__u16 check;
	__u32 rest;
};

SPW_INLINE int icmp_is_error(const struct icmp_header *icmp, int family)
{
	if (family == 6)
		return icmp->type >= 1 && icmp->type <= ICMPV6_LAST_ERROR;
	return icmp->type == ICMP_DEST_UNREACH || icmp->type == ICMP_TIME_EXCEEDED ||
	       icmp->type == ICMP_PARAM_PROBLEM;
}

/* Reads the quoted headers into `q` as they stand. Returns 0 if they are not TCP or UDP, or cut. */
SPW_INLINE int parse_quote(struct packet *p, struct packet *q, int family)
{
	void *cursor = p->l4 + sizeof(struct icmp_header);

	q->end = p->end;
	q->l3 = cursor;
	if (family == 4) {
		struct iphdr *ip = cursor;

		if ((void *)(ip + 1) > p->end || ip->ihl != 5)
			return 0;
		q->src[0] = ip->saddr;
		q->dst[0] = ip->daddr;
		q->proto = ip->protocol;
		q->l4 = ip + 1;
	} else {
		struct ipv6hdr *ip = cursor;

		if ((void *)(ip + 1) > p->end)
			return 0;
		__builtin_memcpy(q->src, &ip->saddr, 16);
		__builtin_memcpy(q->dst, &ip->daddr, 16);
		q->proto = ip->nexthdr;
		q->l4 = ip + 1;
	}
	if (q->proto != IPPROTO_TCP && q->proto != IPPROTO_UDP)
		return 0;
	if (q->l4 + 4 > p->end)
		return 0;
	q->ports = *(__u32 *)q->l4;
	return 1;
}

/* Replaces the outer destination and quoted source, or the outer source and quoted destination. */
SPW_INLINE void rewrite_error(struct packet *p, struct packet *q, int family, int inbound, const __u32 *to)
{
	struct icmp_header *icmp = p->l4;
	__u64 delta = replace_address(p, family, inbound, to);

	delta += replace_address(q, family, !inbound, to);
	if (family == 6)
		icmp->check = checksum_adjust(icmp->check, delta);
}

/* An error about a packet that a unit sent from the VIP: goes to the unit of that flow. */
SPW_INLINE int error_to_unit(struct xdp_md *ctx, struct packet *p, struct packet *q,
			     struct spw_endpoint *service, struct spw_counters *count, int family)
{
	struct placement at = {.service = service, .count = count};
	struct packet flow = {.proto = q->proto, .ports = q->ports >> 16 | q->ports << 16};
	struct spw_unit *unit;
	__u16 id;

	__builtin_memcpy(flow.src, q->dst, 16);
	__builtin_memcpy(flow.dst, q->src, 16);
	at.hash = flow_hash(&flow, family);
	at.slot = slot_at(service, spw_ring_index(at.hash, service->ring_slots));
	if (!at.slot)
		return XDP_DROP;
	id = place_quoted(&at);
	unit = unit_to_reach(id, count);
	if (!unit)
		return XDP_DROP;
	if (!spend_hop(p, family)) {
		count->packets_passed++;
		return XDP_PASS;
	}
	if (service->mode == SPW_MODE_NAT)
		rewrite_error(p, q, family, 1, unit->addr);
	write_next_hop(p, unit);
	count->icmp_forwarded++;
	count_traffic(&unit_traffic, id, p->bytes, 0);
	return leave(ctx, unit->ifindex);
}

/* -1: not an error about a flow of ours. */
SPW_CALL int handle_icmp(struct xdp_md *ctx, struct packet *p, struct spw_counters *count, int family)
{
	struct spw_endpoint *endpoint;
	struct packet q = {};

	if (!icmp_is_error(p->l4, family) || !parse_quote(p, &q, family))
		return -1;
	endpoint = find_service(q.src, packet_sport(&q), q.proto, family);
	/* Sent to the VIP it quotes; one that only passes by is not ours. */
	if (endpoint && endpoint->kind == SPW_ENDPOINT_SERVICE && endpoint->addr[0] == p->dst[0] &&
	    (family == 4 || (endpoint->addr[1] == p->dst[1] && endpoint->addr[2] == p->dst[2] &&
			     endpoint->addr[3] == p->dst[3])))
		return error_to_unit(ctx, p, &q, endpoint, count, family);
	endpoint = find_reply(q.dst, packet_dport(&q), q.proto, family);
	/* Only the unit's own errors: a router between us and the unit speaks for itself. */
	if (endpoint && endpoint->addr[0] == p->src[0] &&
	    (family == 4 || (endpoint->addr[1] == p->src[1] && endpoint->addr[2] == p->src[2] &&
			     endpoint->addr[3] == p->src[3]))) {
		struct bpf_fib_lookup fib = {};
		int found = find_way(ctx, p, family, endpoint->vip, &fib);

		if (found == BPF_FIB_LKUP_RET_NOT_FWDED)
			return -1; /* about what this host sent itself */
		rewrite_error(p, &q, family, 0, endpoint->vip);
		count->icmp_forwarded++;
		return take_way(ctx, p, family, found, &fib);
	}
	return -1;
}
