/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The load report's path: verified and written to the unit's state without leaving the driver hook.
 * Order: form, configured, authentic, newer; the cheap questions first.
 */
#pragma once

#include "core/load.h"
#include "maps.h"
#include "packet.h"

/* The unit's own word on its health, where something is wrong or was. */
SPW_CALL void judge_health(struct spw_server *server, __u32 unit, __u8 flags, __u64 now_ns,
			   struct spw_counters *count)
{
	__u32 index = server->pool;
	struct spw_pool *pool = bpf_map_lookup_elem(&pools, &index);

	if (pool && spw_health_report(server, pool, unit, flags, now_ns) == SPW_HEALTH_KEPT)
		count->failing_kept++;
}

SPW_CALL enum spw_report_verdict accept_report(struct packet *p, struct spw_counters *count)
{
	struct udphdr *udp = p->l4;
	struct spw_report_wire *wire = (void *)(udp + 1);
	enum spw_report_verdict verdict;
	struct spw_server_key *keys;
	struct spw_report_seen *seen;
	struct spw_server *server;
	struct spw_siphash_key key;
	struct spw_report report;
	__u32 code, unit;
	__u64 now_ns;
	int reborn;

	if (p->proto != IPPROTO_UDP || (void *)wire + SPW_REPORT_HEAD > p->end)
		return SPW_REPORT_MALFORMED;
	verdict = spw_report_form(wire, bpf_ntohs(udp->len) - sizeof(*udp));
	if (verdict)
		return verdict;
	if ((void *)(wire + 1) > p->end)
		return SPW_REPORT_MALFORMED;
	verdict = spw_report_decode(wire, bpf_ntohs(udp->len) - sizeof(*udp), &report);
	if (verdict)
		return verdict;
	code = report.server;
	unit = report.unit;
	/* The compiler knows that this is below 8, Linux 6.1's verifier has forgotten: keep the mask. */
	asm volatile("" : "+r"(unit));
	unit &= SPW_UNITS_PER_SERVER - 1;
	keys = bpf_map_lookup_elem(&server_keys, &code);
	server = bpf_map_lookup_elem(&servers, &code);
	if (!keys || !server || !(keys->configured >> unit & 1))
		return SPW_REPORT_UNKNOWN_UNIT;
	key = keys->key;
	if (spw_report_tag(wire, &key) != wire->tag)
		return SPW_REPORT_FORGED;
	seen = &keys->seen[unit];
	if (!spw_report_is_newer(&report, seen))
		return SPW_REPORT_STALE;
	reborn = report.boot_id != seen->boot_id;
	seen->boot_id = report.boot_id;
	seen->sequence = report.sequence;

	now_ns = bpf_ktime_get_ns();
	spw_load_report(server, unit, &report, reborn, now_ns);
	if ((report.flags & SPW_REPORT_FAILING) || server->failing)
		judge_health(server, unit, report.flags, now_ns, count);
	return SPW_REPORT_OK;
}

SPW_INLINE void count_report(struct spw_counters *count, enum spw_report_verdict verdict)
{
	if (verdict == SPW_REPORT_OK)
		count->reports_accepted++;
	else if (verdict == SPW_REPORT_MALFORMED)
		count->reports_malformed++;
	else if (verdict == SPW_REPORT_OTHER_VERSION)
		count->reports_other_version++;
	else if (verdict == SPW_REPORT_UNKNOWN_UNIT)
		count->reports_unknown_unit++;
	else if (verdict == SPW_REPORT_FORGED)
		count->reports_forged++;
	else
		count->reports_stale++;
}
