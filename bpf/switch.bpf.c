/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The switch: picks the server, then the processing unit, for each new flow, and never moves an
 * established one.
 *
 *   parse -> load report?             verify, write the unit's state              (reports.h)
 *         -> packet to a service?     place its flow, forward to the unit         (place.h)
 *         -> reply of a NAT unit?     rewrite to the VIP, route to the client
 *         -> fragment of such a reply? as its first one                           (fragment.h)
 *         -> ICMP error about either? follow the flow it quotes                   (icmp.h)
 *         -> anything else            XDP_PASS, untouched
 *
 * What fails is counted under its name (switch.h). State lives in pinned maps, so a restart of
 * spillwayd or a new program version changes nothing for a flow.
 */
#include "maps.h"
#include "packet.h"
#include "place.h"
#include "place_datagram.h"
#include "reports.h"
#include "rewrite.h"
#include "forward.h"
#include "fragment.h"
#include "icmp.h"

/* is_lone: a datagram of a service without affinity. */
SPW_INLINE __u16 place(struct placement *at, struct packet *p, int is_lone)
{
	if (is_lone)
		return choose(at);
	if (p->proto == IPPROTO_UDP)
		return place_datagram(at);
	return p->tcp.syn ? place_syn(at, p->tcp.sequence) : place_established(at, &p->tcp);
}

SPW_INLINE int serve(struct xdp_md *ctx, struct packet *p, struct spw_endpoint *service,
		     struct spw_counters *count, int family)
{
	struct placement at = {.service = service, .count = count};
	/* Read once: spillwayd may change it. */
	int is_lone = p->proto == IPPROTO_UDP && *(volatile __u8 *)&service->affinity == SPW_AFFINITY_NONE;
	__u16 id;

	if (is_lone || (p->proto != IPPROTO_UDP && p->tcp.syn))
		read_choice_time(&at);
	at.hash = flow_hash(p, family);
	if (is_lone)
		at.hash = spw_spread(at.hash, (__u32)count->new_flows);
	at.slot = slot_at(service, spw_ring_index(at.hash, service->ring_slots));
	if (!at.slot) {
		count->dropped_no_unit++;
		return XDP_DROP;
	}
	id = place(&at, p, is_lone);
	if (id == SPW_NO_UNIT) {
		count->dropped_no_unit++;
		return XDP_DROP;
	}
	count_traffic(&service_traffic, service->service, p->bytes, at.is_new);
	return forward(ctx, p, id, service->mode, count, family, at.is_new);
}

/* Packets to a VIP that no service takes. Returns -1 when the address is not a VIP of ours. */
SPW_CALL int refuse(struct packet *p, enum parsed parsed, struct spw_counters *count, int family)
{
	if (!find_service(p->dst, 0, 0, family))
		return -1;
	switch (parsed) {
	case PARSED_FRAGMENT:
		count->dropped_fragment++;
		return XDP_DROP;
	case PARSED_MALFORMED:
		count->dropped_malformed++;
		return XDP_DROP;
	case PARSED_FLOW:
		count->passed_unknown_port++;
		return XDP_PASS;
	default:
		return -1;
	}
}

SPW_INLINE int handle(struct xdp_md *ctx, struct packet *p, enum parsed parsed, struct spw_counters *count,
		      int family)
{
	struct spw_endpoint *endpoint;
	int verdict;

	if (parsed == PARSED_FLOW) {
		endpoint = find_service(p->dst, packet_dport(p), p->proto, family);
		if (endpoint && endpoint->kind == SPW_ENDPOINT_SERVICE)
			return serve(ctx, p, endpoint, count, family);
		if (endpoint && endpoint->kind == SPW_ENDPOINT_REPORT) {
			count_report(count, accept_report(p, count));
			return XDP_DROP;
		}
		endpoint = find_reply(p->src, packet_sport(p), p->proto, family);
		if (endpoint)
			return return_reply(ctx, p, endpoint, count, family);
	}
	if (parsed == PARSED_FRAGMENT) {
		verdict = handle_fragment(ctx, p, count, family);
		if (verdict >= 0)
			return verdict;
	}
	if (parsed == PARSED_ICMP) {
		verdict = handle_icmp(ctx, p, count, family);
		if (verdict >= 0)
			return verdict;
	}
	if (parsed != PARSED_FOREIGN) {
		verdict = refuse(p, parsed, count, family);
		if (verdict >= 0)
			return verdict;
	}
	count->packets_passed++;
	return XDP_PASS;
}

SEC("xdp")
int spillway_switch(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct spw_counters *count = bpf_map_lookup_elem(&counters, &zero);
	struct packet p = {};
	__be16 ethertype;

	if (!count)
		return XDP_PASS;
	ethertype = parse_ethernet(ctx, &p);
	if (ethertype == bpf_htons(ETH_P_IP))
		return handle(ctx, &p, parse_v4(&p), count, 4);
	if (ethertype == bpf_htons(ETH_P_IPV6))
		return handle(ctx, &p, parse_v6(ctx, &p), count, 6);
	count->packets_passed++;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
