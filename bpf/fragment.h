/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Fragments of what a NAT unit sends. The first shows the port: if it is a service's, the datagram is a reply
 * and all its fragments leave as the VIP's; if not, it is the unit's own and passes. A fragment that comes
 * before the first, or whose entry was taken by others (switch.h), is dropped and counted: passed on, it
 * would show the client the unit's address.
 */
#pragma once

#include "forward.h"

#define IP4_FRAGMENT_OFFSET 0x1fff
#define IP6_FRAGMENT_OFFSET 0xfff8

struct fragment_header { /* of IPv6 */
	__u8 next, reserved;
	__be16 offset;
	__be32 id;
};

/* What the packet says of the datagram that it is a part of. */
struct fragment {
	void *transport;
	__u32 id;
	__u8 proto;
	__u8 is_first;
};

SPW_INLINE int read_fragment(struct packet *p, int family, struct fragment *f)
{
	if (family == 4) {
		struct iphdr *ip = p->l3;

		f->id = ip->id;
		f->is_first = !(ip->frag_off & bpf_htons(IP4_FRAGMENT_OFFSET));
		f->proto = p->proto;
		f->transport = p->l4;
	} else {
		struct fragment_header *header = p->l4;

		if ((void *)(header + 1) > p->end)
			return 0;
		f->id = header->id;
		f->is_first = !(header->offset & bpf_htons(IP6_FRAGMENT_OFFSET));
		f->proto = header->next;
		f->transport = header + 1;
	}
	return f->proto == IPPROTO_TCP || f->proto == IPPROTO_UDP;
}

SPW_INLINE __u64 fragment_hash(const struct packet *p, const struct fragment *f)
{
	const struct spw_seed *seed = (const struct spw_seed *)&hash_seed;

	SPW_OPAQUE(seed); /* as in flow_hash */
	return spw_hash_v6(seed, p->src, p->dst, f->id, f->proto);
}

SPW_INLINE __u64 fragment_entry(__u64 hash, __u16 stamp, __u16 sport)
{
	return (hash & 0xffffffff00000000ULL) | (__u64)stamp << 16 | sport;
}

SPW_INLINE __u16 fragment_age(__u64 entry, __u16 now)
{
	return (__u16)(now - (__u16)(entry >> 16));
}

SPW_CALL void remember_fragment(struct spw_fragment_bucket *bucket, __u64 hash, __u16 sport, __u16 now)
{
	__u32 victim = 0, oldest = 0;

#pragma nounroll /* for the stack */
	for (__u32 i = 0; i < SPW_FRAGMENT_ENTRIES; i++) {
		__u64 entry = bucket->entry[i];
		__u64 own = spw_is_zero(entry >> 1) | spw_is_zero((entry ^ hash) >> 32);
		__u32 score = (__u32)spw_select(own, 1 << 16, fragment_age(entry, now));
		__u64 more = spw_less(oldest, score);

		victim = (__u32)spw_select(more, i, victim);
		oldest = (__u32)spw_select(more, score, oldest);
	}
	SPW_OPAQUE(victim);
	*(volatile __u64 *)&bucket->entry[victim & (SPW_FRAGMENT_ENTRIES - 1)] =
	    fragment_entry(hash, now, sport);
}

/* The source port, or -1. */
SPW_CALL int recall_fragment(const struct spw_fragment_bucket *bucket, __u64 hash, __u16 now)
{
	int sport = -1;

#pragma unroll
	for (__u32 i = 0; i < SPW_FRAGMENT_ENTRIES; i++) {
		__u64 entry = *(const volatile __u64 *)&bucket->entry[i];

		if ((entry ^ hash) >> 32 == 0 && entry != 0 &&
		    fragment_age(entry, now) <= SPW_FRAGMENT_STAMPS)
			sport = (__u16)entry;
	}
	return sport;
}

/* Apart, for the stack. */
SPW_CALL struct spw_endpoint *find_sender(const struct packet *p, __u16 port, __u8 proto, int family)
{
	return find_reply(p->src, port, proto, family);
}

/* -1: not of a NAT unit's service. family: long, as Linux 6.1's verifier forgets what was saved in less. */
SPW_CALL int handle_fragment(struct xdp_md *ctx, struct packet *p, struct spw_counters *count, long family)
{
	struct spw_fragment_bucket *bucket;
	struct spw_endpoint *reply;
	struct fragment f = {};
	__u64 hash;
	__u32 index;
	__u16 now;
	int sport;

	if (!read_fragment(p, family, &f) || !find_sender(p, 0, f.proto | SPW_ENDPOINT_FRAGMENTS, family))
		return -1;
	hash = fragment_hash(p, &f);
	index = (__u32)hash & (SPW_FRAGMENT_BUCKETS - 1);
	bucket = bpf_map_lookup_elem(&fragments, &index);
	if (!bucket)
		return -1;
	now = (__u16)(bpf_ktime_get_coarse_ns() >> SPW_FRAGMENT_STAMP_SHIFT);
	if (f.is_first) {
		/* A TCP header whole, as its checksum stands at its end. */
		__u32 needed = f.proto == IPPROTO_TCP ? sizeof(struct tcphdr) : sizeof(struct udphdr);

		if (f.transport + needed > p->end || f.transport + sizeof(struct udphdr) > p->end) {
			count->dropped_malformed++;
			return XDP_DROP;
		}
		sport = *(__u16 *)f.transport;
		remember_fragment(bucket, hash, (__u16)sport, now);
		p->l4 = f.transport;
	} else {
		p->l4 = NULL;
		sport = recall_fragment(bucket, hash, now);
		if (sport < 0) {
			count->dropped_fragment++;
			return XDP_DROP;
		}
	}
	reply = find_sender(p, (__u16)sport, f.proto, family);
	if (!reply)
		return -1;
	p->proto = f.proto;
	return return_reply(ctx, p, reply, count, family);
}
