// SPDX-License-Identifier: Apache-2.0
// The request meter's memory as the agent sees it, be it the BPF program's maps or the agent's own
// (AF_PACKET). Collect is pure but for that memory: time is an argument.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "agent/config.h"
#include "agent/meters/reading.h"
#include "bpf/meter.h"

namespace spillway::agent {

struct MeterMemory {
  spw_meter_config* config = nullptr;
  spw_meter_shared* shared = nullptr;
  spw_meter_clocks* clocks = nullptr;
  std::span<const spw_meter_counts> counts;  // one per CPU
  std::span<spw_meter_bucket> buckets;
};

// Fills in what the configuration says; time-stamps every request until SetSampling.
void Configure(const AgentConfig& agent, const spw_seed& seed, uint32_t buckets, spw_meter_config* config);
uint32_t BucketCount(const MeterConfig& meter);
spw_seed RandomSeed();

struct MeterTotals {
  spw_meter_counts counts{};  // summed over CPUs
  uint32_t pending = 0;
  uint32_t error_row = 0;
  std::chrono::nanoseconds oldest{0};  // age of the oldest pending request, if swept
  uint32_t latest_start = 0;           // of the requests answered: the latest to come, if swept; 0: none
  uint32_t given_up = 0;               // freed by the sweep: unanswered for longer than the time-out
  double cpus = 1;                     // that answers leave on, as many as if each had an equal share
};

// Sums the counters.
MeterTotals Sum(const MeterMemory& memory);
// Frees the requests that timed out, and finds the oldest of the rest; `overtaken`, if not null: of those
// that were overtaken (bpf/meter.h) the steps by which they were are added. Reads the whole pending table.
void Sweep(const MeterMemory& memory, Time now, MeterTotals* totals,
           std::vector<uint32_t>* overtaken = nullptr);
// Both.
MeterTotals Collect(const MeterMemory& memory, Time now);

// The largest power of two that still times about `kTimedPerSecond` requests a second, as a mask.
inline constexpr double kTimedPerSecond = 4096;
uint32_t SampleMask(double requests_per_second);

// Latency in ns at quantile q of the difference of two histograms; 0 if they are equal.
uint64_t Quantile(const spw_meter_counts& before, const spw_meter_counts& after, double q);

}  // namespace spillway::agent
