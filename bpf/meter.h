/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The request meter's memory: shared by meter.bpf.c, by the agent that reads it, and by the agent's
 * AF_PACKET fallback, which keeps the same structures in its own memory.
 *
 *   what      entry                     writer                          reader
 *   config    struct spw_meter_config   agent                           data plane
 *   shared    struct spw_meter_shared   data plane, agent (atomically)  both
 *   clocks    struct spw_meter_clocks   data plane, agent               both
 *   counts    struct spw_meter_counts   data plane, one per CPU         agent
 *   pending   struct spw_meter_bucket   data plane, agent (atomically)  both
 *
 * Time is in steps of 2^10 ns = 1.024 us of CLOCK_MONOTONIC, modulo 2^32 (73 min).
 */
#pragma once

#include "core/hash.h"
#include "core/types.h"

#define SPW_METER_STEP_SHIFT 10

SPW_INLINE __u32 spw_meter_step(__u64 now_ns)
{
	return (__u32)(now_ns >> SPW_METER_STEP_SHIFT);
}

enum { SPW_METER_UDP = 0, SPW_METER_TCP, SPW_METER_PROTOCOLS };

/* Bits of spw_meter_config.errors: the answers that count as the server's own failure. The low 16 are DNS
 * response codes, as they lie in the header. */
#define SPW_METER_SERVFAIL (1u << 2)
#define SPW_METER_REFUSED (1u << 5)
#define SPW_METER_HTTP_5XX (1u << 16)

/* Bits of spw_meter_shared.watch: what the data plane should report at once. Each is reported once, and
 * then rests until the agent sets it again. */
#define SPW_METER_WATCH_BUSY 1u	   /* over the threshold, or more than queue_high pending */
#define SPW_METER_WATCH_DRAINED 2u /* no more than release_queue pending */
#define SPW_METER_WATCH_ERRORS 4u  /* SPW_METER_ERROR_ROW answers in a row were errors */

#define SPW_METER_ERROR_ROW 12

struct spw_meter_config {
	/* Bit per port, indexed by the port as it lies in the packet (network order). */
	__u8 ports[SPW_METER_PROTOCOLS][8192];
	struct spw_seed seed;
	__u32 bucket_mask;   /* buckets - 1, buckets a power of two */
	__u32 dns;	     /* 1: UDP services speak DNS, and the message id is part of the key */
	__u32 timeout_steps; /* a request unanswered for longer has been given up; < 2^31 */
	__u32 threshold_steps;
	__u32 queue_high; /* 0: no limit */
	__u32 release_queue;
	__u32 sample_mask; /* power of two - 1: one request in that many is timed precisely */
	__u32 gauge;	   /* 1: the data plane keeps shared.pending and reports queue_high and drained */
	__u32 errors;	   /* SPW_METER_SERVFAIL and the like */
};

/* A cache line of its own. */
struct spw_meter_shared {
	__s32 pending; /* with `gauge`: requests in the unit. Every CPU writes it, which costs two */
	/* transfers of this line per request, so it is kept only where queue_high asks */
	__u32 watch;
	__u64 given_up; /* writer: agent's sweep; requests it freed as unanswered */
	__u32
	    error_row; /* so many answers, the last ones, were errors; read with each, written with errors */
	__u32
	    lost_before; /* writer: agent; pending requests that came before are lost, mostly; 0: not known */
	__u32 pad[10];
};
SPW_ASSERT_SIZE(struct spw_meter_shared, 64);

#define SPW_METER_CLOCKS 3

/* A cache line of its own: the backlog clocks of bpf/meter_backlog.h. */
struct spw_meter_clocks {
	__u64 drained_ns[SPW_METER_CLOCKS]; /* when the unit will have worked off its backlog */
	__u32 slot_ns[SPW_METER_CLOCKS];    /* work that a request brings; 0: not known yet; writer: agent */
	__u32 pad[7];
};
SPW_ASSERT_SIZE(struct spw_meter_clocks, 64);

#define SPW_METER_BUCKET_ENTRIES 8

/*
 * Two cache lines, of which untimed requests touch the first only. An entry is one word, so that every change
 * is one compare-and-swap:
 *
 *   tag 30 | open 1 | timed 1 | start 32        0: free
 *
 * `open`: the client has not closed its side of the connection since (TCP).
 * `timed`: start comes from the precise clock and the answer's latency counts. The others start at
 * the coarse clock, up to one kernel tick early: good for time-outs and for the age of the oldest.
 */
struct spw_meter_bucket {
	__u64 entry[SPW_METER_BUCKET_ENTRIES];
	__u32 marks[SPW_METER_BUCKET_ENTRIES]; /* of timed requests: bpf/meter_backlog.h */
	__u32 pad[8];
};
SPW_ASSERT_SIZE(struct spw_meter_bucket, 128);

#define SPW_METER_TIMED (1ULL << 32)
#define SPW_METER_OPEN (1ULL << 33)
#define SPW_METER_TAG_SHIFT 34

/* Log-linear: 8 buckets an octave (12.5 % wide), steps 0..2^27-1 (137 s); later ones in the last. */
#define SPW_METER_HISTOGRAM 200

/*
 * Cumulative, one per CPU. In brackets: what a non-zero value means.
 */
#define SPW_METER_COUNTERS(X)                                                                                \
	X(arrivals, "requests that came in")                                                                 \
	X(completed, "requests answered")                                                                    \
	X(errors, "answers that say that the server failed: DNS SERVFAIL and REFUSED, HTTP 5xx")             \
	X(timed, "answered requests whose latency was measured")                                             \
	X(over_threshold, "measured latencies above the trigger's threshold")                                \
	X(latency_sum_ns, "sum of the measured latencies")                                                   \
	X(repeated, "requests that came again, or more of the same, while the first was pending")            \
	X(unmatched, "UDP answers without a pending request [late, or a second answer]")                     \
	X(timed_out, "requests given up as unanswered")                                                      \
	X(abandoned, "requests that ended unanswered: with their TCP connection, or refused")                \
	X(overwritten, "pending requests lost to newer ones [the pending table is too small]")               \
	X(raced, "updates lost to another CPU [harmless when few]")                                          \
	X(connections, "TCP connections asked for")                                                          \
	X(accepted, "TCP connections that the unit accepted")                                                \
	X(refused, "requests and connections that the unit refused: ICMP port unreachable, a reset in "      \
		   "answer to a SYN, or a connection that it ended with a request unanswered, "              \
		   "before the client closed its side")                                                      \
	X(dismissed, "requests that the unit left unanswered when it ended the connection, of clients that " \
		     "had closed their side [QUIT, or a refusal]")                                           \
	X(malformed, "packets of a service that are cut short or contradict themselves")

#define SPW_METER_BINS 16 /* of backlog: below 1/2 slot, 1/2 to 1, 1 to 2, 2 to 4, ... */

/* The marked requests that found such a backlog. */
struct spw_meter_outcome {
	__u64 answers;
	__u64 backlog;	      /* sum, in sixteenths of a slot */
	__u64 latency_steps;  /* sum */
	__u64 latency_steps2; /* sum of squares */
};

/* Answers that came while a request waited behind them, by the backlog which that request had found. */
struct spw_meter_pace {
	__u64 answers;
	__u64 busy_steps; /* from answer to answer */
};

/*
 * A pending request is *overtaken* by the time between its coming and that of the latest request that has
 * been answered. Requests that wait in a queue are not; those that take longer than others are, and those
 * that no answer will come to are by more and more.
 */
#define SPW_METER_OVERTAKEN_STEPS 24576u /* 25 ms: by less is not worth a look */
#define SPW_METER_OVERTAKEN_OCTAVES 16

struct spw_meter_counts {
#define SPW_METER_FIELD(field, help) __u64 field;
	SPW_METER_COUNTERS(SPW_METER_FIELD)
#undef SPW_METER_FIELD
	__u64 latency_min_ns; /* 0: none measured yet */
	__u64 untimed;	      /* requests since the last timed one: not cumulative */
	__u32 last_answer;    /* of a timed request: when, in steps */
	__u32 answered_then;  /* `completed` at that moment */
	__u64 histogram[SPW_METER_HISTOGRAM];
	struct spw_meter_outcome outcome[SPW_METER_CLOCKS][SPW_METER_BINS];
	struct spw_meter_pace pace[SPW_METER_BINS];
	__u64 overtaken[SPW_METER_OVERTAKEN_OCTAVES]; /* answered though overtaken by 25, 50, 100 ... ms */
	__u32 latest_start; /* of the requests answered: the latest to come, in steps; 0: none yet */
	__u32 pad[7];
};
SPW_ASSERT_SIZE(struct spw_meter_counts, 3712); /* whole cache lines: neighbours are other CPUs */

/* What the data plane reports at once. */
enum spw_meter_event {
	SPW_METER_NOTHING = 0,
	SPW_METER_OVER_THRESHOLD,
	SPW_METER_QUEUE_HIGH,
	SPW_METER_DRAINED,
	SPW_METER_ERRORS,
};

struct spw_meter_notice { /* in the ring buffer `notices` */
	__u32 event;
	__u32 pending;
	__u64 latency_ns; /* of the request that tripped; 0 for the other events */
};
SPW_ASSERT_SIZE(struct spw_meter_notice, 16);

SPW_INLINE __u32 spw_meter_histogram_index(__u32 steps)
{
	__u32 octave = 2;

	if (steps < 8)
		return steps;
	/* Bounded halving: BPF has no count-leading-zeros. */
	if (steps >> 27)
		return SPW_METER_HISTOGRAM - 1;
	if (steps >> 18)
		octave = 17;
	else if (steps >> 11)
		octave = 10;
#pragma GCC unroll 10
	for (int i = 0; i < 10; i++)
		if (steps >> (octave + 1))
			octave++;
	return (octave - 2) * 8 + ((steps >> (octave - 3)) & 7);
}

/* Smallest value of a histogram bucket, in steps: the inverse of the above. */
SPW_INLINE __u32 spw_meter_histogram_floor(__u32 index)
{
	__u32 octave = index / 8 + 2;

	return index < 8 ? index : (8 + index % 8) << (octave - 3);
}
