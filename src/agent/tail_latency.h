// SPDX-License-Identifier: Apache-2.0
// The latency that 98 of 100 answers stay below, at the load that the unit has now. What an overload made of
// it says nothing of the same unit half idle, so answers are kept apart by how much of its time the unit was
// at work. Pure. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "agent/latency_sample.h"
#include "bpf/meter.h"

namespace spillway::agent {

class TailLatency {
 public:
  // What came between two states of the cumulative counters, elapsed_ns apart. slot_ns: time between answers
  // of the unit at its limit; 0: not known.
  void Learn(const spw_meter_counts& before, const spw_meter_counts& after, double elapsed_ns,
             double slot_ns);
  double Ns() const;  // 0 without latencies

 private:
  static constexpr size_t kLevels = 4;  // quarters of the unit's time
  size_t Level() const { return static_cast<size_t>(std::min(utilization_, 0.999) * kLevels); }

  double utilization_ = 0;  // moving average
  std::array<LatencySample, kLevels> answers_;
};

}  // namespace spillway::agent
