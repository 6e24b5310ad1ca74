/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Passive request meter, attached by tc to both directions of a unit's interface. A service's packet
 * coming in starts a pending request, the answer going out ends it; the packets themselves pass
 * untouched, whatever they hold.
 *
 *   UDP  one request per packet, keyed by client address and port, service port and (DNS) message id
 *   TCP  a request is the first data since the last answer; its answer, the first data going out
 *
 * A refusal (ICMP port unreachable, TCP reset) ends its request, too, and is counted apart. So is an answer
 * by which the server says that it failed (DNS, HTTP/1 in the clear): of what an answer says no more is read.
 * A TLS alert from the client is no request.
 *
 * Cost: the precise clock is the dearest thing here (36 ns), so beyond a few thousand requests a
 * second only a sample is timed; every request is counted. Failure modes: a full bucket loses its
 * oldest request (`overwritten`), an unanswered one is given up after the time-out, by the next to
 * need its entry or by the agent's sweep. If the agent dies the program goes on counting until the
 * next agent replaces it.
 */
#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "bpf/meter_account.h"

#define SPW_METER_PULL 128 /* Ethernet, 2 tags, IPv6, ICMPv6, IPv6, UDP, DNS id and flags: 122 */

struct spw_meter_config meter_config;				   /* writer: agent */
struct spw_meter_shared meter_shared __attribute__((aligned(64))); /* writers: this program, agent */
struct spw_meter_clocks meter_clocks __attribute__((aligned(64))); /* writers: this program, agent */

struct { /* pending requests; writers: this program, agent's sweep */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2048); /* set before load */
	__type(key, __u32);
	__type(value, struct spw_meter_bucket);
} pending SEC(".maps");

struct { /* counters, one entry per CPU; writer: this program; reader: agent, by mmap */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before load: possible CPUs */
	__type(key, __u32);
	__type(value, struct spw_meter_counts);
} counts SEC(".maps");

struct { /* what cannot wait for the agent's next look; reader: agent */
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} notices SEC(".maps");

static __always_inline void tell(enum spw_meter_event event, __u64 latency_ns)
{
	struct spw_meter_notice notice = {
	    .event = event,
	    .pending = (__u32)meter_shared.pending,
	    .latency_ns = latency_ns,
	};

	bpf_ringbuf_output(&notices, &notice, sizeof(notice), 0);
}

static __always_inline int is_alert(const struct __sk_buff *skb, const struct spw_meter_packet *packet)
{
	struct spw_meter_record record;

	return spw_meter_may_be_alert(packet) &&
	       !bpf_skb_load_bytes(skb, packet->payload_at, &record, sizeof(record)) &&
	       spw_meter_is_alert(&record, packet->payload_bytes);
}

static __always_inline void on_request(struct spw_meter_counts *mine, struct spw_meter_bucket *bucket,
				       const struct spw_meter_packet *packet)
{
	int timed = spw_meter_samples(&meter_config, packet->hash, mine->arrivals);
	__u64 now_ns = timed ? bpf_ktime_get_ns() : bpf_ktime_get_coarse_ns();
	enum spw_meter_event event;

	event = spw_meter_request(&meter_config, &meter_shared, &meter_clocks, mine, bucket, packet, now_ns,
				  timed);
	if (event)
		tell(event, 0);
}

/* A TCP answer's payload is seldom in the skb's linear part, hence the helper. */
static __always_inline __u32 is_error(const struct __sk_buff *skb, const struct spw_meter_packet *packet)
{
	struct spw_meter_status_line line;

	if (!packet->tcp)
		return spw_meter_is_dns_error(&meter_config, packet);
	if (!spw_meter_may_be_http(&meter_config, packet) ||
	    bpf_skb_load_bytes(skb, packet->payload_at, &line, SPW_METER_STATUS_LINE))
		return 0;
	return spw_meter_is_http_error(&line);
}

static __always_inline void on_answer(const struct __sk_buff *skb, struct spw_meter_counts *mine,
				      struct spw_meter_bucket *bucket, const struct spw_meter_packet *packet)
{
	__u32 marks;
	__u64 entry = spw_meter_take(&meter_config, &meter_shared, mine, bucket, packet->hash, &marks),
	      latency_ns;
	enum spw_meter_event event;

	if (!entry) {
		mine->unmatched += !packet->tcp; /* TCP: the rest of a long answer */
		return;
	}
	event = spw_meter_answered(&meter_config, &meter_shared, mine, entry, (int)is_error(skb, packet));
	if (event)
		tell(event, 0);
	if (entry & SPW_METER_TIMED) {
		event = spw_meter_measure(&meter_config, &meter_shared, mine, entry, marks,
					  spw_meter_step(bpf_ktime_get_ns()), &latency_ns);
		if (event)
			tell(event, latency_ns);
	}
	event = spw_meter_drained(&meter_config, &meter_shared);
	if (event)
		tell(event, 0);
}

static __always_inline void meter(struct __sk_buff *skb, enum spw_meter_direction direction)
{
	struct spw_meter_packet packet = {};
	struct spw_meter_counts *mine;
	struct spw_meter_bucket *bucket;
	enum spw_meter_parsed parsed;
	__u32 cpu, index;

	parsed = spw_meter_parse(&meter_config, (void *)(long)skb->data, (void *)(long)skb->data_end,
				 skb->len, direction, &packet);
	if (parsed == SPW_METER_SHORT) { /* headers in a fragment of the skb */
		if (bpf_skb_pull_data(skb, skb->len < SPW_METER_PULL ? skb->len : SPW_METER_PULL))
			return;
		parsed = spw_meter_parse(&meter_config, (void *)(long)skb->data, (void *)(long)skb->data_end,
					 skb->len, direction, &packet);
	}
	if (parsed == SPW_METER_FOREIGN)
		return;
	cpu = bpf_get_smp_processor_id();
	mine = bpf_map_lookup_elem(&counts, &cpu);
	if (!mine)
		return;
	if (parsed != SPW_METER_OURS) {
		mine->malformed++;
		return;
	}
	index = (__u32)packet.hash & meter_config.bucket_mask;
	bucket = bpf_map_lookup_elem(&pending, &index);
	if (!bucket)
		return;
	if (spw_meter_note(&meter_config, &meter_shared, mine, bucket, &packet, direction))
		return;
	if (direction == SPW_METER_EGRESS) {
		on_answer(skb, mine, bucket, &packet);
		return;
	}
	if (!is_alert(skb, &packet))
		on_request(mine, bucket, &packet);
	if (packet.fin)
		spw_meter_client_closes(bucket, packet.hash);
}

SEC("tc")
int meter_ingress(struct __sk_buff *skb)
{
	if (skb->pkt_type != PACKET_OTHERHOST) /* seen only because the interface is promiscuous */
		meter(skb, SPW_METER_INGRESS);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int meter_egress(struct __sk_buff *skb)
{
	meter(skb, SPW_METER_EGRESS);
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "GPL";
