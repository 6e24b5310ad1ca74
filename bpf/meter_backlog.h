/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What a request found when it came to the unit, and how long it then took: the data that the agent
 * fits base, slot and knee of core/headroom.h to. Pure but for the memory it is given.
 *
 * A *backlog clock* says when the unit will have worked off all that has come to it, if each request
 * brings a slot of work. Several run side by side, with slots of different length, because how fast a
 * unit works in the long run (a CPU quota, say) does not show in how fast it answers a few requests;
 * the agent finds out which clock predicts latencies best. A request is *marked* with the backlog
 * that each clock showed when it came, in slots; its latency is added to the outcomes of that mark.
 *
 * Only timed requests read the clocks. The others are counted, per CPU, and added by the next timed
 * one on that CPU: shared memory is written a few thousand times a second, however many requests come.
 * Two CPUs that race lose a slot, which the agent's next look makes good.
 */
#pragma once

#include "bpf/meter.h"

#define SPW_METER_SLOT_FRACTION 16 /* marks count sixteenths of a slot */

/* Backlog of one clock in sixteenths of its slot -> 8 bits, 12.5 % wide. */
SPW_INLINE __u32 spw_meter_mark(__u64 backlog_ns, __u32 slot_ns)
{
	__u64 sixteenths = backlog_ns * SPW_METER_SLOT_FRACTION / (slot_ns | spw_is_zero(slot_ns));

	return spw_meter_histogram_index(
	    (__u32)spw_select(spw_less(sixteenths, 1u << 26), sixteenths, 1u << 26));
}

/* A timed request came: the marks of all clocks, 8 bits each. Its work and that of the untimed before
 * it is added to the clocks. */
SPW_INLINE __u32 spw_meter_mark_request(struct spw_meter_clocks *clocks, struct spw_meter_counts *counts,
					__u64 now_ns)
{
	__u64 untimed = counts->untimed;
	__u32 marks = 0;

	counts->untimed = 0;
#pragma GCC unroll 3
	for (int c = 0; c < SPW_METER_CLOCKS; c++) {
		__u64 slot = clocks->slot_ns[c], drained = clocks->drained_ns[c] + untimed * slot;
		__u64 behind = spw_less(drained, now_ns);

		marks |= spw_meter_mark((drained - now_ns) * (1 - behind), (__u32)slot) << (8 * c);
		clocks->drained_ns[c] = spw_select(behind, now_ns, drained) + slot;
	}
	return marks;
}

SPW_INLINE __u32 spw_meter_bin(__u32 mark)
{
	__u32 bin = mark >> 3;
	__u32 beyond = (__u32)spw_less(SPW_METER_BINS - 1, bin);

	/* The least of both; masked, because the kernel's verifier does not follow a comparison of `mark`. */
	return (bin | (0 - beyond)) & (SPW_METER_BINS - 1);
}

/*
 * A marked request was answered, and has been counted as completed. If it had come before the last
 * timed answer left, the unit has not been empty in between: then the time from answer to answer is
 * the unit's pace.
 */
SPW_INLINE void spw_meter_add_outcome(struct spw_meter_counts *counts, __u32 marks, __u32 start, __u32 now)
{
	__u64 latency = now - start;
	__u32 bin = spw_meter_bin(marks & 0xff);

	if ((__s32)(counts->last_answer - start) > 0 && (__s32)(now - counts->last_answer) >= 0) {
		counts->pace[bin].answers += (__u32)counts->completed - counts->answered_then;
		counts->pace[bin].busy_steps += now - counts->last_answer;
	}
	counts->last_answer = now;
	counts->answered_then = (__u32)counts->completed;
#pragma GCC unroll 3
	for (int c = 0; c < SPW_METER_CLOCKS; c++) {
		__u32 mark = marks >> (8 * c) & 0xff;
		struct spw_meter_outcome *outcome = &counts->outcome[c][spw_meter_bin(mark)];

		outcome->answers++;
		outcome->backlog += spw_meter_histogram_floor(mark);
		outcome->latency_steps += latency;
		outcome->latency_steps2 += latency * latency;
	}
}
