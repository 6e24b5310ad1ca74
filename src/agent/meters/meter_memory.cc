// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/meter_memory.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "bpf/meter_account.h"
#include "core/byte_order.h"

namespace spillway::agent {
namespace {

uint32_t Steps(double ns) {
  return static_cast<uint32_t>(
      std::min<double>(ns / (1 << SPW_METER_STEP_SHIFT), std::numeric_limits<int32_t>::max()));
}

}  // namespace

uint32_t BucketCount(const MeterConfig& meter) {
  return std::bit_ceil(std::max(meter.pending / SPW_METER_BUCKET_ENTRIES, 1u));
}

spw_seed RandomSeed() {
  spw_seed seed;
  // 48 bytes come whole: getrandom is interrupted only beyond 256.
  if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) std::memset(&seed, 0x5a, sizeof(seed));
  return seed;
}

void Configure(const AgentConfig& agent, const spw_seed& seed, uint32_t buckets, spw_meter_config* config) {
  std::memset(config, 0, sizeof(*config));
  for (const ServicePort& service : agent.services) {
    const uint16_t port = spw_be16(service.port);
    config->ports[service.tcp ? SPW_METER_TCP : SPW_METER_UDP][port >> 3] |= 1 << (port & 7);
  }
  config->seed = seed;
  config->bucket_mask = buckets - 1;
  config->dns = agent.meter.dns;
  config->timeout_steps = Steps(static_cast<double>(agent.meter.timeout.count()));
  config->threshold_steps = Steps(agent.trigger.threshold);
  config->queue_high = agent.trigger.queue_high;
  config->gauge = agent.trigger.queue_high > 0;
  const ErrorAnswers& errors = agent.failing.errors;
  config->errors = (errors.servfail ? SPW_METER_SERVFAIL : 0) | (errors.refused ? SPW_METER_REFUSED : 0) |
                   (errors.http_5xx ? SPW_METER_HTTP_5XX : 0);
  config->release_queue = agent.trigger.release_queue;
}

MeterTotals Sum(const MeterMemory& memory) {
  MeterTotals totals;
  double squares = 0;
  for (const spw_meter_counts& one : memory.counts) {
    const auto answered = static_cast<double>(__atomic_load_n(&one.completed, __ATOMIC_RELAXED));
    squares += answered * answered;
    // Words of the type that the fields have: as any other (uint64_t is one), the compiler may take it that
    // they did not change.
    const auto* from = reinterpret_cast<const __u64*>(&one);
    auto* to = reinterpret_cast<__u64*>(&totals.counts);
    const uint64_t min = totals.counts.latency_min_ns;
    for (size_t i = 0; i < sizeof(one) / sizeof(__u64); i++)
      to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    const uint64_t mine = totals.counts.latency_min_ns - min;
    totals.counts.latency_min_ns = min && mine ? std::min(min, mine) : std::max(min, mine);
  }
  const auto answered = static_cast<double>(totals.counts.completed);
  if (squares > 0) totals.cpus = std::max(answered * answered / squares, 1.0);
  // CPUs are read one after another, so an answer may be seen without its request.
  const spw_meter_counts& c = totals.counts;
  const uint64_t gone = c.timed_out + c.overwritten + c.completed + c.abandoned + memory.shared->given_up;
  totals.pending = static_cast<uint32_t>(c.arrivals > gone ? c.arrivals - gone : 0);
  totals.error_row = __atomic_load_n(&memory.shared->error_row, __ATOMIC_RELAXED);
  return totals;
}

void Sweep(const MeterMemory& memory, Time now, MeterTotals* totals, std::vector<uint32_t>* overtaken) {
  const uint32_t step = spw_meter_step(static_cast<uint64_t>(now.count()));
  uint32_t oldest = 0;
  totals->latest_start = 0;
  for (const spw_meter_counts& one : memory.counts) {
    const uint32_t start = __atomic_load_n(&one.latest_start, __ATOMIC_RELAXED);
    if (start != 0 && (totals->latest_start == 0 || step - start < step - totals->latest_start))
      totals->latest_start = start;
  }
  for (spw_meter_bucket& bucket : memory.buckets) {
    for (__u64& slot : bucket.entry) {
      const uint64_t entry = __atomic_load_n(&slot, __ATOMIC_RELAXED);
      if (entry == 0) continue;
      const uint32_t age = spw_meter_age(entry, step);
      if (age <= memory.config->timeout_steps) {
        oldest = std::max(oldest, age);
        const uint32_t by =
            spw_meter_overtaken(memory.config, totals->latest_start, static_cast<uint32_t>(entry));
        if (overtaken && by >= SPW_METER_OVERTAKEN_STEPS) overtaken->push_back(by);
      } else if (__sync_bool_compare_and_swap(&slot, entry, 0)) {
        if (memory.config->gauge) __sync_fetch_and_sub(&memory.shared->pending, 1);
        memory.shared->given_up++;
        totals->given_up++;
      }
    }
  }
  totals->oldest = std::chrono::nanoseconds(static_cast<int64_t>(oldest) << SPW_METER_STEP_SHIFT);
  totals->pending -= std::min(totals->pending, totals->given_up);
}

MeterTotals Collect(const MeterMemory& memory, Time now) {
  MeterTotals totals = Sum(memory);
  Sweep(memory, now, &totals);
  return totals;
}

uint32_t SampleMask(double requests_per_second) {
  uint32_t mask = 0;
  while (requests_per_second >= 2 * kTimedPerSecond && mask < 1023) {
    mask = mask * 2 + 1;
    requests_per_second /= 2;
  }
  return mask;
}

uint64_t Quantile(const spw_meter_counts& before, const spw_meter_counts& after, double q) {
  uint64_t total = 0, seen = 0;
  for (int i = 0; i < SPW_METER_HISTOGRAM; i++) total += after.histogram[i] - before.histogram[i];
  if (total == 0) return 0;
  const double wanted = q * static_cast<double>(total);
  for (int i = 0; i < SPW_METER_HISTOGRAM; i++) {
    seen += after.histogram[i] - before.histogram[i];
    if (static_cast<double>(seen) < wanted) continue;
    // The middle of the bucket: off by 6 % at most.
    const uint64_t low = spw_meter_histogram_floor(i), high = spw_meter_histogram_floor(i + 1);
    return ((low + high) << SPW_METER_STEP_SHIFT) / 2;
  }
  return 0;
}

}  // namespace spillway::agent
