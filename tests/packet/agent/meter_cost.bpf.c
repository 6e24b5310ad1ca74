/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the meter costs per request. Each run plays one request and one answer through the meter's
 * own code, with kDepth requests in the unit, so that the pending table is met as in traffic;
 * BPF_PROG_TEST_RUN repeats it on one packet, which is rewritten here each time. `floor_run` does
 * all but call the meter: the difference of the two is the cost. The packets are DNS over UDP and HTTP over
 * TCP, over IPv4 with equal addresses, so that turning one round is a swap of ports and, of DNS, one bit.
 */
#include "bpf/meter.bpf.c"

#define DEPTH 1000
#define UDP_OFFSET (ETH_HLEN + 20)

__u32 turn;

struct dns_packet {
  __u16 source, destination, length, check, id;
  __u8 flags, code;
};

static __always_inline int set(struct __sk_buff* skb, __u16 source, __u16 destination, __u32 id, __u8 flags) {
  __u8 *data = (void*)(long)skb->data, *end = (void*)(long)skb->data_end;
  struct dns_packet* packet = (void*)(data + UDP_OFFSET);

  if (data + UDP_OFFSET + sizeof(*packet) > end) return -1;
  packet->source = source;
  packet->destination = destination;
  packet->id = (__u16)id;
  packet->flags = flags;
  asm volatile("" ::: "memory");
  return 0;
}

static __always_inline int run(struct __sk_buff* skb, int metered) {
  __u32 id = turn++;

  if (set(skb, spw_be16(40000), spw_be16(53), id, 0)) return TC_ACT_SHOT;
  if (metered) meter(skb, SPW_METER_INGRESS);
  if (set(skb, spw_be16(53), spw_be16(40000), id - DEPTH, SPW_METER_DNS_RESPONSE)) return TC_ACT_SHOT;
  if (metered) meter(skb, SPW_METER_EGRESS);
  return TC_ACT_OK;
}

/* Requests are told apart by the client's port; both directions carry the packet's text, an answer's. */
static __always_inline int set_ports(struct __sk_buff* skb, __u16 source, __u16 destination) {
  __u8 *data = (void*)(long)skb->data, *end = (void*)(long)skb->data_end;
  __u16* ports = (void*)(data + UDP_OFFSET);

  if (data + UDP_OFFSET + 4 > end) return -1;
  ports[0] = source;
  ports[1] = destination;
  asm volatile("" ::: "memory");
  return 0;
}

static __always_inline int run_http(struct __sk_buff* skb, int metered) {
  __u32 port = turn++;

  if (set_ports(skb, (__u16)port, spw_be16(80))) return TC_ACT_SHOT;
  if (metered) meter(skb, SPW_METER_INGRESS);
  if (set_ports(skb, spw_be16(80), (__u16)(port - DEPTH))) return TC_ACT_SHOT;
  if (metered) meter(skb, SPW_METER_EGRESS);
  return TC_ACT_OK;
}

SEC("tc")
int metered_http_run(struct __sk_buff* skb) { return run_http(skb, 1); }

SEC("tc")
int floor_http_run(struct __sk_buff* skb) { return run_http(skb, 0); }

SEC("tc")
int metered_run(struct __sk_buff* skb) { return run(skb, 1); }

SEC("tc")
int floor_run(struct __sk_buff* skb) { return run(skb, 0); }
