/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The load report: what an agent tells the switch about one unit, in one UDP datagram. Byte layout
 * and a worked example: docs/report-format.md.
 *
 * Trust: the tag is SipHash-2-4 of the first 64 bytes under the server's key, so only the server
 * can speak for its units. Replays are refused by (boot_id, sequence), which must grow: boot_id is
 * the agent's start in microseconds of Unix time, so a restarted agent is newer than all it ever
 * sent, and a recording of an earlier life is older than what the switch has seen. The sequence
 * compares as a number; after the last one the agent adds one to boot_id.
 */
#pragma once

#include "byte_order.h"
#include "siphash.h"
#include "types.h"

#define SPW_REPORT_MAGIC 0x53505752u /* "SPWR" */
#define SPW_REPORT_VERSION 4
#define SPW_REPORT_PORT 9870 /* default */

/* flags */
#define SPW_REPORT_BUSY 0x01	/* the agent's trigger is tripped */
#define SPW_REPORT_GUESSED 0x02 /* too few requests have waited to learn slot_ns: it is a guess */
#define SPW_REPORT_FAILING 0x04 /* requests come to the unit and get no good answer; core/health.h */
#define SPW_REPORT_REFUSED 0x08 /* with FAILING: because the unit refuses them, not because it is mute */
#define SPW_REPORT_ERRORS 0x10	/* with FAILING: because its answers say that it failed */

/* Level of load: 0 idle, 128 at the agent's threshold, 255 at twice the threshold or more. */
#define SPW_LEVEL_THRESHOLD 128

/* On the wire; multi-byte fields in network order, the tag as SipHash's little-endian output. */
struct spw_report_wire {
	__u32 magic;
	__u8 version;
	__u8 unit;     /* index within the server, 0..7 */
	__u16 server;  /* server code, 0..4095 */
	__u64 boot_id; /* agent's start, us since 1970 */
	__u32 sequence;
	__u8 level;
	__u8 flags;
	__u16 queue;	  /* requests in the unit now, queued or in service; 65535: that or more */
	__u32 latency_us; /* smoothed request latency */
	__u32 completed;  /* requests answered since boot_id, modulo 2^32 */
	__u32 base_us;	  /* latency to expect when no request waits; 0: not learnt yet */
	__u32 slot_ns; /* work that one request brings: time between answers under full load; 0: not learnt */
	__u32 knee_us; /* backlog, the new request's slot included, beyond which requests wait */
	__u32 age_us;  /* how old these numbers were when the report was sent */
	__u32 period_us;  /* the next report comes so much later at the latest; 0: whenever a request is answered */
	__u32 backlog_us; /* time until the unit will have worked off what has come to it */
	__u32 tail_us;	  /* 98 of 100 requests were answered within this time recently; 0: not learnt yet */
	__u32 reserved;	  /* 0 */
	__u64 tag;
};
SPW_ASSERT_SIZE(struct spw_report_wire, 72);

/* The same in host order, without what only the wire needs. */
struct spw_report {
	__u64 boot_id;
	__u32 sequence;
	__u32 latency_us;
	__u32 completed;
	__u32 base_us;
	__u32 slot_ns;
	__u32 age_us;
	__u32 period_us;
	__u32 knee_us;
	__u32 backlog_us;
	__u32 tail_us;
	__u16 server;
	__u16 queue;
	__u8 unit;
	__u8 level;
	__u8 flags;
	__u8 pad[1];
};

/* What the switch remembers of a unit's reports, to refuse the next replay. */
struct spw_report_seen {
	__u64 boot_id; /* 0: none yet */
	__u32 sequence;
	__u32 pad;
};
SPW_ASSERT_SIZE(struct spw_report_seen, 16);

enum spw_report_verdict {
	SPW_REPORT_OK = 0,
	SPW_REPORT_MALFORMED,	  /* length, magic, or a code out of range */
	SPW_REPORT_OTHER_VERSION, /* of an agent older or newer than this switch */
	SPW_REPORT_UNKNOWN_UNIT,  /* no such server or unit here */
	SPW_REPORT_FORGED,	  /* wrong tag */
	SPW_REPORT_STALE,	  /* authentic, but not newer than the last: replayed or overtaken */
};

SPW_INLINE __u64 spw_report_tag(const struct spw_report_wire *wire, const struct spw_siphash_key *key)
{
	const spw_word *w = (const spw_word *)wire;
	__u64 words[8];

	/* Pairs of 32-bit loads: UDP payloads are 4-byte aligned at best. */
#pragma GCC unroll 8
	for (int i = 0; i < 8; i++)
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		words[i] = (__u64)w[2 * i] | (__u64)w[2 * i + 1] << 32;
#else
		words[i] = spw_le64((__u64)w[2 * i] << 32 | w[2 * i + 1]);
#endif
	return spw_le64(spw_siphash24(key, words, 8));
}

SPW_INLINE void spw_report_encode(struct spw_report_wire *wire, const struct spw_report *report,
				  const struct spw_siphash_key *key)
{
	wire->magic = spw_be32(SPW_REPORT_MAGIC);
	wire->version = SPW_REPORT_VERSION;
	wire->unit = report->unit;
	wire->server = spw_be16(report->server);
	wire->boot_id = spw_be64(report->boot_id);
	wire->sequence = spw_be32(report->sequence);
	wire->level = report->level;
	wire->flags = report->flags;
	wire->queue = spw_be16(report->queue);
	wire->latency_us = spw_be32(report->latency_us);
	wire->completed = spw_be32(report->completed);
	wire->base_us = spw_be32(report->base_us);
	wire->slot_ns = spw_be32(report->slot_ns);
	wire->knee_us = spw_be32(report->knee_us);
	wire->age_us = spw_be32(report->age_us);
	wire->period_us = spw_be32(report->period_us);
	wire->backlog_us = spw_be32(report->backlog_us);
	wire->tail_us = spw_be32(report->tail_us);
	wire->reserved = 0;
	wire->tag = spw_report_tag(wire, key);
}

#define SPW_REPORT_HEAD 8 /* bytes that every version begins with: magic, version, unit, server */

/* Reads the head only, so that reports of another version, which have another length, are told as such. */
SPW_INLINE enum spw_report_verdict spw_report_form(const struct spw_report_wire *wire, __u32 payload_bytes)
{
	if (payload_bytes < SPW_REPORT_HEAD || wire->magic != spw_be32(SPW_REPORT_MAGIC))
		return SPW_REPORT_MALFORMED;
	if (wire->version != SPW_REPORT_VERSION)
		return SPW_REPORT_OTHER_VERSION;
	return payload_bytes == sizeof(*wire) ? SPW_REPORT_OK : SPW_REPORT_MALFORMED;
}

/* Form only; who sent it is spw_report_tag's question, and it costs more, so it comes after. */
SPW_INLINE enum spw_report_verdict spw_report_decode(const struct spw_report_wire *wire, __u32 payload_bytes,
						     struct spw_report *report)
{
	enum spw_report_verdict form = spw_report_form(wire, payload_bytes);

	if (form != SPW_REPORT_OK)
		return form;
	report->server = spw_be16(wire->server);
	report->unit = wire->unit;
	if (report->server >= SPW_MAX_SERVERS || report->unit >= SPW_UNITS_PER_SERVER)
		return SPW_REPORT_MALFORMED;
	report->boot_id = spw_be64(wire->boot_id);
	report->sequence = spw_be32(wire->sequence);
	report->level = wire->level;
	report->flags = wire->flags;
	report->queue = spw_be16(wire->queue);
	report->latency_us = spw_be32(wire->latency_us);
	report->completed = spw_be32(wire->completed);
	report->base_us = spw_be32(wire->base_us);
	report->slot_ns = spw_be32(wire->slot_ns);
	report->knee_us = spw_be32(wire->knee_us);
	report->age_us = spw_be32(wire->age_us);
	report->period_us = spw_be32(wire->period_us);
	report->backlog_us = spw_be32(wire->backlog_us);
	report->tail_us = spw_be32(wire->tail_us);
	report->pad[0] = 0;
	return SPW_REPORT_OK;
}

SPW_INLINE int spw_report_is_newer(const struct spw_report *report, const struct spw_report_seen *seen)
{
	if (report->boot_id != seen->boot_id)
		return report->boot_id > seen->boot_id;
	return report->sequence > seen->sequence; /* not modulo: an old one must never be newer again */
}
