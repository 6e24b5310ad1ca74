// SPDX-License-Identifier: Apache-2.0
// Latencies counted in the request meter's histogram, and the tail that they have. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "bpf/meter.h"

namespace spillway::agent {

// Latencies counted in the request meter's histogram: of some looks, or of all with the old ones
// fading. Times in ns. A plain value.
class LatencySample {
 public:
  // What came between two states of the cumulative counters.
  void Add(const spw_meter_counts& before, const spw_meter_counts& after);
  void Add(const LatencySample& other);
  void Fade(double keep);

  double count() const { return weighed_ / weight_; }
  // Interpolated within a bucket (12.5 % wide); 0 without latencies.
  double Quantile(double q) const;
  // By how much the latencies between `ns` and `most_ns` exceed `ns` on average; 0 if they are fewer than
  // `least`.
  double MeanBeyond(double ns, double most_ns, double least) const;

 private:
  // To fade what is there, what comes from then on counts for more: a fading does not pass over the buckets.
  double weight_ = 1;
  std::array<double, SPW_METER_HISTOGRAM> bucket_{};
  double weighed_ = 0;  // all buckets
};

// The latency that 98 of 100 answers stay below, at the load that the unit has now. What an overload made of
// it says nothing of the same unit half idle, so answers are kept apart by how much of its time the unit was
// at work. Pure. Not thread-safe.
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
