/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * For measuring only, never attached to an interface: runs before each packet of a BPF_PROG_TEST_RUN
 * with `repeat`, which neither resets the packet nor varies it. Restores the headers from a template,
 * writes the next flow's addresses, and tail-calls what is measured: the switch, or floor_tx, whose
 * time is the wrapper's own cost.
 *
 * Headers are stored in the pieces that parsers load them by: a load that spans two recent stores
 * waits for both, which no packet from a network card makes it do.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#include <bpf/bpf_helpers.h>

#include "bpf/bench_wrapper.h"

struct spw_bench_walk walk;			    /* writers: user space, this program */
struct spw_bench_frame frame;			    /* writer: user space */
struct spw_bench_report reports[SPW_BENCH_REPORTS]; /* writer: user space */

struct { /* entry 0: what is measured; writer: user space */
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} target SEC(".maps");

#define ETH_BYTES 14
#define V4_WORDS 5
#define V6_WORDS 10
#define TCP_WORDS 5
#define UDP_WORDS 2
#define REPORT_WORDS ((int)(sizeof(struct spw_report_wire) / 4))

/* Returns the start of the network header, or 0 when the frame is shorter than ETH_BYTES + 4 * words. */
SPW_INLINE __u32 *restore(struct xdp_md *ctx, int words, int room)
{
	void *data = (void *)(long)ctx->data;
	__u32 *l3 = data + ETH_BYTES;

	if ((void *)(l3 + room) > (void *)(long)ctx->data_end)
		return 0;
	*(__u64 *)data = frame.eth;
	*(__u32 *)(data + 8) = frame.eth_8;
	*(__u16 *)(data + 12) = frame.eth_12;
#pragma unroll
	for (int i = 0; i < words; i++)
		l3[i] = frame.words[i];
	return l3;
}

SPW_INLINE int measure(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &target, 0);
	return XDP_ABORTED;
}

SPW_INLINE int wrap_flow(struct xdp_md *ctx, int network_words, int transport_words, int client_word)
{
	__u32 *l3 = restore(ctx, network_words + transport_words, network_words + transport_words);
	__u32 flow = spw_bench_step(&walk);

	if (!l3)
		return XDP_ABORTED;
	l3[client_word] = spw_bench_client(flow);
	*(__u16 *)&l3[network_words] = spw_bench_client_port(flow);
	return measure(ctx);
}

SEC("xdp")
int wrap_v4tcp(struct xdp_md *ctx)
{
	return wrap_flow(ctx, V4_WORDS, TCP_WORDS, 3);
}

SEC("xdp")
int wrap_v4udp(struct xdp_md *ctx)
{
	return wrap_flow(ctx, V4_WORDS, UDP_WORDS, 3);
}

SEC("xdp")
int wrap_v6tcp(struct xdp_md *ctx)
{
	return wrap_flow(ctx, V6_WORDS, TCP_WORDS, 5);
}

SEC("xdp")
int wrap_report(struct xdp_md *ctx)
{
	__u32 *l3 = restore(ctx, V4_WORDS + UDP_WORDS, V4_WORDS + UDP_WORDS + REPORT_WORDS);
	__u32 index = spw_bench_step(&walk) & (SPW_BENCH_REPORTS - 1);

	if (!l3)
		return XDP_ABORTED;
#pragma unroll
	for (int i = 0; i < REPORT_WORDS; i++)
		l3[V4_WORDS + UDP_WORDS + i] = reports[index].words[i];
	return measure(ctx);
}

SEC("xdp")
int floor_tx(struct xdp_md *ctx __attribute__((unused)))
{
	return XDP_TX;
}

char _license[] SEC("license") = "GPL";
