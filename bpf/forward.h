/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Look-ups by endpoint, and the way out: to a unit (nat, dsr-l2), or back to the client (nat).
 *
 * The next hop towards a unit stands in its entry, so the way in costs no look-up. The way back goes
 * to any client, so the kernel's routing table is asked; where it cannot answer at once (neighbour
 * unknown, packet too big), the rewritten packet goes up the stack, which forwards it.
 */
#pragma once

#include "maps.h"
#include "packet.h"
#include "rewrite.h"

#ifndef AF_INET
#define AF_INET 2
#define AF_INET6 10
#endif

SPW_INLINE __u64 flow_hash(const struct packet *p, int family)
{
	const struct spw_seed *seed = (const struct spw_seed *)&hash_seed;

	/* Else the compiler, which sees a constant without a value, hashes with a key of zeros. */
	SPW_OPAQUE(seed);
	return family == 4 ? spw_hash_v4(seed, p->src[0], p->dst[0], p->ports, p->proto)
			   : spw_hash_v6(seed, p->src, p->dst, p->ports, p->proto);
}

#define FIND_ENDPOINT(map, mask, address, port, proto, family)                                               \
	({                                                                                                   \
		__u32 v4_words[4] = {(address)[0], 0, 0, 0};                                                 \
		const __u32 *words = (family) == 4 ? v4_words : (address);                                   \
		__u32 line = spw_endpoint_home(words, port, proto, mask);                                    \
		struct spw_endpoint *found = NULL;                                                           \
		_Pragma("nounroll") for (int probe = 0; probe < SPW_ENDPOINT_PROBES; probe++)                \
		{                                                                                            \
			struct spw_endpoint *e = bpf_map_lookup_elem(&map, &line);                           \
			if (!e || e->kind == SPW_ENDPOINT_EMPTY)                                             \
				break;                                                                       \
			if (e->kind != SPW_ENDPOINT_GONE &&                                                  \
			    spw_endpoint_matches(e, words, port, proto, family)) {                           \
				found = e;                                                                   \
				break;                                                                       \
			}                                                                                    \
			line = (line + 1) & (mask);                                                          \
		}                                                                                            \
		found;                                                                                       \
	})

SPW_INLINE struct spw_endpoint *find_service(const __u32 *addr, __u16 port, __u8 proto, int family)
{
	return FIND_ENDPOINT(services, SPW_SERVICE_LINES - 1, addr, port, proto, family);
}

SPW_INLINE struct spw_endpoint *find_reply(const __u32 *addr, __u16 port, __u8 proto, int family)
{
	return FIND_ENDPOINT(replies, reply_line_mask, addr, port, proto, family);
}

SPW_INLINE void count_traffic(void *map, __u32 key, __u32 bytes, int is_new)
{
	struct spw_traffic *traffic = bpf_map_lookup_elem(map, &key);

	if (!traffic)
		return;
	traffic->packets++;
	traffic->bytes += bytes;
	traffic->new_flows += is_new;
}

SPW_INLINE int leave(struct xdp_md *ctx, __u32 ifindex)
{
	return ifindex == ctx->ingress_ifindex ? XDP_TX : bpf_redirect(ifindex, 0);
}

/* The packet's own unit, by id; it may have gone between placement and here. */
SPW_INLINE struct spw_unit *unit_to_reach(__u16 id, struct spw_counters *count)
{
	__u32 key = id;
	struct spw_unit *unit = bpf_map_lookup_elem(&units, &key);

	if (!unit || !unit->alive) {
		count->dropped_no_unit++;
		return NULL;
	}
	if (!unit->resolved) {
		count->dropped_unresolved++;
		return NULL;
	}
	return unit;
}

SPW_INLINE void write_next_hop(struct packet *p, const struct spw_unit *unit)
{
	__builtin_memcpy(p->eth->h_dest, unit->mac, ETH_ALEN);
	__builtin_memcpy(p->eth->h_source, unit->own_mac, ETH_ALEN);
}

SPW_INLINE int forward(struct xdp_md *ctx, struct packet *p, __u16 id, __u8 mode, struct spw_counters *count,
		       int family, int is_new)
{
	struct spw_unit *unit = unit_to_reach(id, count);

	if (!unit)
		return XDP_DROP;
	if (!spend_hop(p, family)) {
		count->packets_passed++;
		return XDP_PASS;
	}
	if (mode == SPW_MODE_NAT)
		adjust_transport(p, replace_address(p, family, 1, unit->addr));
	write_next_hop(p, unit);
	count->packets_forwarded++;
	count_traffic(&unit_traffic, id, p->bytes, is_new);
	return leave(ctx, unit->ifindex);
}

/*
 * Asks the kernel's routing table for the way to the packet's destination, for a packet from `from`; it has
 * to be known before the source is rewritten. BPF_FIB_LKUP_RET_NOT_FWDED: it is for this host, as the answer
 * to a health check is, or for nowhere; or the interface does not forward, and then only such answers arrive.
 */
SPW_CALL int find_way(struct xdp_md *ctx, struct packet *p, int family, const __u32 *from,
		      struct bpf_fib_lookup *fib)
{
	int found;

	fib->ifindex = ctx->ingress_ifindex;
	fib->l4_protocol = p->proto;
	if (family == 4) {
		struct iphdr *ip = p->l3;

		fib->family = AF_INET;
		fib->tot_len = bpf_ntohs(ip->tot_len);
		fib->tos = ip->tos;
		fib->ipv4_src = from[0];
		fib->ipv4_dst = ip->daddr;
	} else {
		struct ipv6hdr *ip = p->l3;

		fib->family = AF_INET6;
		fib->tot_len = bpf_ntohs(ip->payload_len);
		__builtin_memcpy(fib->ipv6_src, from, 16);
		__builtin_memcpy(fib->ipv6_dst, &ip->daddr, 16);
	}
	found = bpf_fib_lookup(ctx, fib, sizeof(*fib), 0);
	return found == BPF_FIB_LKUP_RET_FWD_DISABLED ? BPF_FIB_LKUP_RET_NOT_FWDED : found;
}

/* Sends a rewritten packet the way that was found, or up the stack to be routed there. */
SPW_INLINE int take_way(struct xdp_md *ctx, struct packet *p, int family, int found,
			const struct bpf_fib_lookup *fib)
{
	if (found != BPF_FIB_LKUP_RET_SUCCESS || !spend_hop(p, family))
		return XDP_PASS;
	__builtin_memcpy(p->eth->h_dest, fib->dmac, ETH_ALEN);
	__builtin_memcpy(p->eth->h_source, fib->smac, ETH_ALEN);
	return leave(ctx, fib->ifindex);
}

/* A later fragment has no transport header: its l4 is NULL. */
SPW_CALL int return_reply(struct xdp_md *ctx, struct packet *p, struct spw_endpoint *reply,
			  struct spw_counters *count, int family)
{
	struct bpf_fib_lookup fib = {};
	int found = find_way(ctx, p, family, reply->vip, &fib);
	__u64 delta;

	if (found == BPF_FIB_LKUP_RET_NOT_FWDED) {
		count->packets_passed++;
		return XDP_PASS;
	}
	delta = replace_address(p, family, 0, reply->vip);
	if (p->l4)
		adjust_transport(p, delta);
	count->packets_returned++;
	return take_way(ctx, p, family, found, &fib);
}
