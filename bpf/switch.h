/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Contract between switch.bpf.c and user space: what the pinned maps hold, and the data plane's packet
 * counters (struct spw_counters). A change of any layout here or in core/ raises SPW_LAYOUT, and a daemon
 * then starts afresh instead of adopting old maps.
 *
 *   map         entry                 writer                     reader
 *   meta        struct spw_meta       spillwayd, once            spillwayd
 *   services    struct spw_endpoint   spillwayd                  data plane
 *   replies     struct spw_endpoint   spillwayd                  data plane
 *   ring_slots  struct spw_ring_slot  spillwayd (owner, next),   data plane
 *                                     data plane (ticks)
 *   units       struct spw_unit       spillwayd                  data plane
 *   servers     struct spw_server     spillwayd (config),        data plane
 *                                     data plane (load, health)
 *   pools       struct spw_pool       spillwayd, data plane      data plane
 *                                     (out)
 *   server_keys struct spw_server_key spillwayd (key),           data plane
 *                                     data plane (seen)
 *   flow_table  struct spw_bucket     data plane, spillwayd      data plane
 *                                     (sweep)
 *   flow_filter struct spw_filter_word data plane, spillwayd     data plane
 *                                     (sweep)
 *   half_open   struct spw_half_open  data plane                 data plane
 *   refused     struct spw_refused    data plane                 data plane
 *   fragments   struct spw_fragment_bucket data plane            data plane; not pinned
 *   counters    struct spw_counters   data plane, per CPU        spillwayd
 *   unit_traffic, service_traffic
 *               struct spw_traffic    data plane, per CPU        spillwayd
 */
#pragma once

#include "core/endpoint.h"
#include "core/flow_filter.h"
#include "core/flow_table.h"
#include "core/half_open.h"
#include "core/hash.h"
#include "core/policy.h"
#include "core/report.h"
#include "core/ring.h"
#include "core/server.h"

#define SPW_LAYOUT 9

#define SPW_SERVICE_LINES 8192 /* 1,024 services and their VIPs at a quarter full */

struct spw_meta {
	__u32 layout;
	__u32 flow_buckets;   /* power of two */
	__u32 ring_capacity;  /* entries of ring_slots */
	__u32 reply_lines;    /* power of two */
	struct spw_seed seed; /* stays at this place in every layout: a new one takes it over */
	__u64 birth;	      /* random; the ledger of these maps names it */
};

/* Where a unit is. All that forwarding needs, in one cache line. */
struct spw_unit {
	__u8 mac[6];	 /* next hop towards the unit */
	__u8 own_mac[6]; /* of the interface it leaves by */
	__u32 ifindex;
	__u32 addr[4]; /* DIP, network order; IPv4 in addr[0] */
	__u8 family;   /* 4 or 6 */
	__u8 alive;    /* 1: up or draining, its flows stay; 0: its flows are placed anew */
	__u8 resolved; /* 1: mac, own_mac and ifindex hold */
	__u8 pad[29];
};
SPW_ASSERT_SIZE(struct spw_unit, 64);

struct spw_server_key {
	struct spw_siphash_key key;
	__u8 configured; /* bit u: unit u may report */
	__u8 pad[15];
	struct spw_report_seen seen[SPW_UNITS_PER_SERVER];
	__u8 pad2[32];
};
SPW_ASSERT_SIZE(struct spw_server_key, 192);

/*
 * Where datagrams were placed on the ring as there was no place for them: the slot tick of the last, by bits
 * of the flow's hash. For the idle time after, a datagram without an entry may be of such a flow. Lines of a
 * service lie together, so that a flood at one costs the flows of no other their choice.
 */
#define SPW_REFUSED_LINES 8
#define SPW_REFUSED_MARKS 32

struct spw_refused {
	__u16 tick[SPW_REFUSED_MARKS]; /* 0: none */
};
SPW_ASSERT_SIZE(struct spw_refused, 64);

/*
 * Replies in fragments: only the first has ports, so it leaves its source port for those that follow, which
 * are of the same (source, destination, protocol, id). One cache line; a datagram whose entry was taken by
 * others meanwhile is lost, and counted. An entry is one word, so that no reader meets half of it:
 *
 *   tag 32 | stamp 16 | source port 16
 *
 *   tag    of the above, beside the bucket's ten bits: another datagram's is met once in 2^39
 *   stamp  of about 4 ms; wraps after 275 s
 */
#define SPW_FRAGMENT_BUCKETS 1024
#define SPW_FRAGMENT_ENTRIES 8
#define SPW_FRAGMENT_STAMP_SHIFT 22
#define SPW_FRAGMENT_STAMPS 7500 /* 31 s: hosts wait about as long for the rest of a datagram */

struct spw_fragment_bucket {
	__u64 entry[SPW_FRAGMENT_ENTRIES]; /* 0: free */
};
SPW_ASSERT_SIZE(struct spw_fragment_bucket, 64);

struct spw_traffic {
	__u64 packets;
	__u64 bytes;
	__u64 new_flows;
	__u64 pad;
};

/*
 * One field per verdict and event. X(field, help): the list serves the struct, the metrics and the
 * CLI, so a counter has one name everywhere. In brackets: what a non-zero value means.
 */
#define SPW_COUNTERS(X)                                                                                      \
	X(packets_forwarded, "packets sent to a unit")                                                       \
	X(packets_returned, "replies rewritten from a unit's address to the VIP (nat)")                      \
	X(packets_passed, "packets that are not ours, left to the host's stack")                             \
	X(placed_on_ring, "packets of flows that need no entry")                                             \
	X(placed_by_entry, "packets whose flow has an entry in the flow table")                              \
	X(new_flows, "flows placed by the policies")                                                         \
	X(syn_repeated, "repeated SYNs sent to the unit of the first")                                       \
	X(flows_inserted, "entries written to the flow table")                                               \
	X(flows_kept_on_ring, "new flows placed on their ring slot's owner whatever the policy, as "         \
			      "remembering them would cost others [a flood, or the flow table is too "       \
			      "small]")                                                                      \
	X(flow_insert_raced, "inserts lost to another CPU, and treated as if there was no place")            \
	X(flows_replaced, "packets of flows whose unit died, placed anew")                                   \
	X(flows_diverted, "new flows that the server of their ring slot could not take [its units are "      \
			  "failing, draining or down]")                                                      \
	X(fail_open, "new flows sent to a failing unit, as no other was found [many fail at once]")          \
	X(failing_kept, "load reports that said failing of a unit that stays in, as half of its pool is "    \
			"out already, or as it is excused [many fail at once, or an agent is wrong]")        \
	X(reports_accepted, "load reports taken")                                                            \
	X(reports_malformed, "load reports of wrong length, magic or range [foreign traffic]")               \
	X(reports_other_version, "load reports of another version [an agent older or newer than spillwayd]") \
	X(reports_unknown_unit, "load reports for a server or unit that is not configured")                  \
	X(reports_forged, "load reports with a wrong tag [wrong key, or an attack]")                         \
	X(reports_stale, "load reports not newer than the last [a few after reordering are normal; a "       \
			 "steady rate means a replay, or two agents for one unit]")                          \
	X(icmp_forwarded, "ICMP errors sent to the unit of the flow they quote")                             \
	X(dropped_fragment, "fragments to a VIP, and those from a nat unit whose first did not come before " \
			    "them: their flow cannot be known")                                              \
	X(redirect_failed,                                                                                   \
	  "packets that were sent and that a driver lost [its queue is full, or the interface takes "        \
	  "none from XDP, is down, or has a smaller MTU]; counted while spillwayd runs")                     \
	X(dropped_malformed, "packets to a VIP that are cut short or contradict themselves")                 \
	X(dropped_no_unit, "packets for which no unit is up")                                                \
	X(dropped_unresolved, "packets for a unit whose next hop is unknown")                                \
	X(passed_unknown_port, "packets to a VIP on a port without a service, left to the host's stack")

struct spw_counters {
#define SPW_COUNTER_FIELD(field, help) __u64 field;
	SPW_COUNTERS(SPW_COUNTER_FIELD)
#undef SPW_COUNTER_FIELD
};
