// SPDX-License-Identifier: Apache-2.0
// The latency that 98 of 100 answers stay below, at the load that the unit has now. What an overload made of
// it says nothing of the same unit half idle, so answers are kept apart by how much of its time the unit was
// at work. Pure. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "agent/learner/latency_sample.h"
#include "bpf/meter.h"

namespace spillway::agent {

class TailLatency {
 public:
  // What came between two states of the cumulative counters, elapsed_ns apart; what comes close together is
  // learnt as one. queue: requests in the unit at the end. slot_ns: time between answers of the unit at its
  // limit; 0: not known.
  void Learn(const spw_meter_counts& before, const spw_meter_counts& after, double elapsed_ns, uint32_t queue,
             double slot_ns);
  double Ns() const;  // 0 without latencies

 private:
  static constexpr size_t kLevels = 4;  // quarters of the unit's time
  static size_t LevelOf(double load) { return static_cast<size_t>(std::min(load, 0.999) * kLevels); }

  void LearnLook(const spw_meter_counts& after, double elapsed_ns, uint32_t queue, double slot_ns);

  spw_meter_counts before_{};  // where the looks that are not learnt yet began
  double elapsed_ns_ = 0;

  // Parts of the unit's time, moving averages: the second rises sooner and falls later. Answers count for the
  // level of the second, as what waits in a burst, when the load rises or after it fell, does so for the
  // higher load.
  double load_ = 0, burst_load_ = 0;
  struct Level {
    LatencySample latest, before;  // at most so many answers each; then the latest are those before
    void Fade(double keep);
  };
  LatencySample Answers(size_t level) const;

  std::array<Level, kLevels> levels_;
};

}  // namespace spillway::agent
