/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The request meter's accounting: pending requests, answers, latencies, refusals, and what a client
 * dismissed. Pure but for the memory it is given; time is an argument. meter.bpf.c and the AF_PACKET fallback
 * call the same functions.
 *
 * Invariant: the number of occupied entries, the requests in the unit, is arrivals - timed_out -
 * overwritten - completed - abandoned (over all CPUs) - given_up. With `gauge` it is shared->pending,
 * too: whoever turns an entry from free to occupied, or back, by compare-and-swap, moves it by one.
 */
#pragma once

#include "bpf/meter_backlog.h"
#include "bpf/meter_packet.h"

SPW_INLINE __u64 spw_meter_tag(__u64 hash)
{
	return hash >> SPW_METER_TAG_SHIFT << SPW_METER_TAG_SHIFT;
}

/* Steps since an entry's start. One that began after `now` (the coarse clock lags) is new. */
SPW_INLINE __u32 spw_meter_age(__u64 entry, __u32 now)
{
	__s32 age = (__s32)(now - (__u32)entry);

	return age < 0 ? 0 : (__u32)age;
}

/* Takes the watch bit, if it is set: whoever gets it notifies the agent. */
SPW_INLINE int spw_meter_claim(struct spw_meter_shared *shared, __u32 bit)
{
	__u32 watch = *(volatile __u32 *)&shared->watch;

	return (watch & bit) && __sync_val_compare_and_swap(&shared->watch, watch, watch & ~bit) == watch;
}

/* Whether to time this request precisely: one in sample_mask + 1, not the same clients each time. */
SPW_INLINE int spw_meter_samples(const struct spw_meter_config *config, __u64 hash, __u64 arrivals)
{
	return !(((hash + arrivals * 0x9e3779b97f4a7c15ULL) >> 40) & config->sample_mask);
}

/*
 * A request came. The first of its key keeps its start: a client's repetition or a request's further
 * segments do not restart the clock, unless the first has been lost by all that is known: clients use their
 * ports again. Victims, in order: free, given up, oldest.
 */
SPW_INLINE enum spw_meter_event
spw_meter_request(const struct spw_meter_config *config, struct spw_meter_shared *shared,
		  struct spw_meter_clocks *clocks, struct spw_meter_counts *counts,
		  struct spw_meter_bucket *bucket, const struct spw_meter_packet *packet, __u64 now_ns,
		  int timed)
{
	__u32 now = spw_meter_step(now_ns);
	__u64 tag = spw_meter_tag(packet->hash),
	      word = tag | SPW_METER_OPEN | (timed ? SPW_METER_TIMED : 0) | now, old;
	__u32 oldest = 0, victim = 0;
	__s32 pending;

#pragma GCC unroll 8
	for (__u32 i = 0; i < SPW_METER_BUCKET_ENTRIES; i++) {
		__u64 entry = bucket->entry[i];
		__u32 score = entry ? spw_meter_age(entry, now) + 1 : ~0u;

		if (entry && !((entry ^ tag) >> SPW_METER_TAG_SHIFT)) {
			if (score <= config->timeout_steps &&
			    (packet->tcp || !shared->lost_before ||
			     (__s32)(shared->lost_before - (__u32)entry) <= 0)) {
				counts->repeated++;
				return SPW_METER_NOTHING;
			}
			oldest = ~0u; /* given up or lost, and asked again: its own successor */
			victim = i;
		}
		if (score > oldest) {
			oldest = score;
			victim = i;
		}
	}
	victim &= SPW_METER_BUCKET_ENTRIES - 1;
	old = bucket->entry[victim];
	if (__sync_val_compare_and_swap(&bucket->entry[victim], old, word) != old) {
		counts->raced++;
		return SPW_METER_NOTHING;
	}
	counts->arrivals++;
	if (timed)
		bucket->marks[victim] = spw_meter_mark_request(clocks, counts, now_ns);
	else
		counts->untimed++;
	if (old) {
		if (spw_meter_age(old, now) > config->timeout_steps || !((old ^ tag) >> SPW_METER_TAG_SHIFT))
			counts->timed_out++;
		else
			counts->overwritten++;
		return SPW_METER_NOTHING; /* the gauge stays: one out, one in */
	}
	if (!config->gauge)
		return SPW_METER_NOTHING;
	pending = __sync_fetch_and_add(&shared->pending, 1) + 1;
	if (config->queue_high && pending > (__s32)config->queue_high &&
	    spw_meter_claim(shared, SPW_METER_WATCH_BUSY))
		return SPW_METER_QUEUE_HIGH;
	return SPW_METER_NOTHING;
}

/* Frees the key's entry. Returns it, and its marks, or 0 if there is none; the caller counts it as completed
 * or abandoned. */
SPW_INLINE __u64 spw_meter_take(const struct spw_meter_config *config, struct spw_meter_shared *shared,
				struct spw_meter_counts *counts, struct spw_meter_bucket *bucket, __u64 hash,
				__u32 *marks)
{
	__u64 tag = spw_meter_tag(hash), found = 0;
	__u32 at = 0;

#pragma GCC unroll 8
	for (__u32 i = 0; i < SPW_METER_BUCKET_ENTRIES; i++) {
		__u64 entry = bucket->entry[i];

		if (entry && !((entry ^ tag) >> SPW_METER_TAG_SHIFT)) {
			found = entry;
			at = i;
		}
	}
	if (!found)
		return 0;
	*marks = bucket->marks[at & (SPW_METER_BUCKET_ENTRIES - 1)];
	if (__sync_val_compare_and_swap(&bucket->entry[at & (SPW_METER_BUCKET_ENTRIES - 1)], found, 0) !=
	    found) {
		counts->raced++;
		return 0;
	}
	if (config->gauge)
		__sync_fetch_and_add(&shared->pending, -1);
	return found;
}

/* The client closes its side of the connection: a request that is pending may still be answered, and need not
 * be. */
SPW_INLINE void spw_meter_client_closes(struct spw_meter_bucket *bucket, __u64 hash)
{
	__u64 tag = spw_meter_tag(hash);

#pragma GCC unroll 8
	for (__u32 i = 0; i < SPW_METER_BUCKET_ENTRIES; i++) {
		__u64 entry = bucket->entry[i];

		if (entry && !((entry ^ tag) >> SPW_METER_TAG_SHIFT))
			__sync_val_compare_and_swap(&bucket->entry[i], entry, entry & ~SPW_METER_OPEN);
	}
}

/*
 * What is neither request nor answer: refusals, and the beginning and end of connections. 1 if the packet
 * was one of these. A connection that the unit ends with a request unanswered is refused as well, unless the
 * client ended it first: then what looked like a request may have been its farewell (QUIT, or TLS's), as it
 * is when the unit had closed already, whose kernel then answers by a reset without ACK (RFC 9293, 3.10.7.1).
 */
SPW_INLINE int spw_meter_note(const struct spw_meter_config *config, struct spw_meter_shared *shared,
			      struct spw_meter_counts *counts, struct spw_meter_bucket *bucket,
			      const struct spw_meter_packet *packet, enum spw_meter_direction direction)
{
	int outgoing = direction == SPW_METER_EGRESS, ends;
	__u32 marks;

	if (packet->tcp && packet->syn && !outgoing)
		counts->connections++;
	counts->accepted += packet->accepts;
	if (packet->fin && !packet->payload_bytes && !outgoing)
		spw_meter_client_closes(bucket, packet->hash);
	ends = packet->refuses || packet->rst || (packet->fin && !packet->payload_bytes && outgoing);
	if (ends) {
		__u64 pending = spw_meter_take(config, shared, counts, bucket, packet->hash, &marks);

		counts->abandoned += pending != 0;
		if (packet->refuses)
			counts->refused++;
		else if (pending && outgoing && !packet->was_closed)
			(*(pending & SPW_METER_OPEN ? &counts->refused : &counts->dismissed))++;
		return 1;
	}
	return packet->tcp && (!packet->payload_bytes || packet->syn);
}

SPW_INLINE __u32 spw_meter_overtaken_octave(__u32 steps)
{
	__u32 octave = 0;

#pragma GCC unroll 15
	for (int i = 1; i < SPW_METER_OVERTAKEN_OCTAVES; i++)
		octave += steps >> i >= SPW_METER_OVERTAKEN_STEPS;
	return octave;
}

/* By how much the request that began at `start` was overtaken, given the latest one answered. More than the
 * time-out means that there has been no answer for half a round of the clock. */
SPW_INLINE __u32 spw_meter_overtaken(const struct spw_meter_config *config, __u32 latest, __u32 start)
{
	__u32 by = latest - start;

	return latest && by <= config->timeout_steps ? by : 0;
}

SPW_INLINE void spw_meter_count_overtaken(const struct spw_meter_config *config,
					  struct spw_meter_counts *counts, __u32 start)
{
	__u32 by = spw_meter_overtaken(config, counts->latest_start, start);

	if (!by)
		counts->latest_start = start ? start : 1;
	else if (by >= SPW_METER_OVERTAKEN_STEPS)
		counts->overtaken[spw_meter_overtaken_octave(by) & (SPW_METER_OVERTAKEN_OCTAVES - 1)]++;
}

/* A request was answered, by an error or not. Answers on several CPUs at once stand in whatever order: a good
 * one among errors ends their row, mostly. */
SPW_INLINE enum spw_meter_event spw_meter_answered(const struct spw_meter_config *config,
						   struct spw_meter_shared *shared,
						   struct spw_meter_counts *counts, __u64 entry, int is_error)
{
	counts->completed++;
	spw_meter_count_overtaken(config, counts, (__u32)entry);
	if (!is_error) {
		if (*(volatile __u32 *)&shared->error_row)
			*(volatile __u32 *)&shared->error_row = 0;
		return SPW_METER_NOTHING;
	}
	counts->errors++;
	return __sync_fetch_and_add(&shared->error_row, 1) + 1 >= SPW_METER_ERROR_ROW &&
		       spw_meter_claim(shared, SPW_METER_WATCH_ERRORS)
		   ? SPW_METER_ERRORS
		   : SPW_METER_NOTHING;
}

/* A timed request was answered at `now` (precise). Stores its latency. */
SPW_INLINE enum spw_meter_event spw_meter_measure(const struct spw_meter_config *config,
						  struct spw_meter_shared *shared,
						  struct spw_meter_counts *counts, __u64 entry, __u32 marks,
						  __u32 now, __u64 *latency_ns)
{
	__u32 steps = spw_meter_age(entry, now), index = spw_meter_histogram_index(steps);

	*latency_ns = (__u64)steps << SPW_METER_STEP_SHIFT;
	counts->timed++;
	counts->latency_sum_ns += *latency_ns;
	if (!counts->latency_min_ns || *latency_ns < counts->latency_min_ns)
		counts->latency_min_ns = *latency_ns ? *latency_ns : 1;
	if (index < SPW_METER_HISTOGRAM)
		counts->histogram[index]++;
	spw_meter_add_outcome(counts, marks, now - steps, now);
	if (steps <= config->threshold_steps)
		return SPW_METER_NOTHING;
	counts->over_threshold++;
	return spw_meter_claim(shared, SPW_METER_WATCH_BUSY) ? SPW_METER_OVER_THRESHOLD : SPW_METER_NOTHING;
}

/* After an answer: has the unit drained, and does the agent wait for that? */
SPW_INLINE enum spw_meter_event spw_meter_drained(const struct spw_meter_config *config,
						  struct spw_meter_shared *shared)
{
	if (!config->gauge || !(*(volatile __u32 *)&shared->watch & SPW_METER_WATCH_DRAINED) ||
	    *(volatile __s32 *)&shared->pending > (__s32)config->release_queue ||
	    !spw_meter_claim(shared, SPW_METER_WATCH_DRAINED))
		return SPW_METER_NOTHING;
	return SPW_METER_DRAINED;
}
