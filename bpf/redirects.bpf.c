/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What becomes of the packets after the switch said "redirect" or "transmit": a driver may still lose them,
 * which no verdict shows. Tracepoints do: they are followed while spillwayd runs, and the switch's counter is
 * raised. The packet path itself does nothing for it.
 *
 *   xdp_redirect_err   the target takes no packets from XDP, is down, or the packet is too long for it
 *   xdp_exception      the driver could not transmit where the packet came in
 *   xdp_devmap_xmit    the target's queue was full
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "switch.h"

/* Of the kernel's own structures, only what is read here; libbpf finds the fields' places. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_prog_aux {
	__u32 id;
};
struct bpf_prog {
	struct bpf_prog_aux *aux;
};
struct net_device {
	int ifindex;
};
#pragma clang attribute pop

const volatile __u32 switch_program; /* id of the program whose packets are counted */

struct { /* the switch's own map; writer: this and the data plane, per CPU */
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct spw_counters);
} counters SEC(".maps");

struct { /* interfaces that the switch is attached to; writer: spillwayd */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u8);
} attached SEC(".maps");

static __always_inline void count_failed(__u64 packets)
{
	__u32 zero = 0;
	struct spw_counters *count = bpf_map_lookup_elem(&counters, &zero);

	if (count)
		count->redirect_failed += packets;
}

/* Arguments by number, as the kernel's trace/events/xdp.h has them. */
#define ARGUMENT(ctx, number, type) ((type)(ctx)[number])

/* device, program, target, error, ... */
SEC("tp_btf/xdp_redirect_err")
int on_redirect_error(__u64 *ctx)
{
	const struct bpf_prog *program = ARGUMENT(ctx, 1, const struct bpf_prog *);

	if (program->aux->id == switch_program)
		count_failed(1);
	return 0;
}

/* device, program, verdict */
SEC("tp_btf/xdp_exception")
int on_exception(__u64 *ctx)
{
	const struct bpf_prog *program = ARGUMENT(ctx, 1, const struct bpf_prog *);

	if (ARGUMENT(ctx, 2, __u32) == XDP_TX && program->aux->id == switch_program)
		count_failed(1);
	return 0;
}

/* from, to, sent, drops, error */
SEC("tp_btf/xdp_devmap_xmit")
int on_transmit(__u64 *ctx)
{
	const struct net_device *from = ARGUMENT(ctx, 0, const struct net_device *);
	int drops = ARGUMENT(ctx, 3, int);
	__u32 ifindex;

	if (drops <= 0)
		return 0;
	ifindex = (__u32)from->ifindex;
	if (bpf_map_lookup_elem(&attached, &ifindex))
		count_failed((__u64)drops);
	return 0;
}

char _license[] SEC("license") = "GPL";
