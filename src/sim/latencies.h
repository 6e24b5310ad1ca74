// SPDX-License-Identifier: Apache-2.0
// Latencies of a run in memory that does not grow with their number: a log-linear histogram, 256 buckets
// an octave (0.4 % wide, and a quantile is interpolated within its bucket). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway::sim {

class Latencies {
 public:
  Latencies() : counts_(size_t{kOctaves} * kPerOctave) {}

  void Add(uint64_t ns);
  uint64_t count() const { return count_; }
  double MeanNs() const { return count_ ? sum_ns_ / static_cast<double>(count_) : 0; }
  // q in 0..1; 0 when empty. The smallest latency that a share q of all does not exceed.
  double QuantileNs(double q) const;

 private:
  static constexpr uint32_t kShift = 8, kPerOctave = 1u << kShift, kOctaves = 64 - kShift + 1;
  static size_t IndexOf(uint64_t ns);
  static uint64_t FloorOf(size_t index);

  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  double sum_ns_ = 0;
};

}  // namespace spillway::sim
