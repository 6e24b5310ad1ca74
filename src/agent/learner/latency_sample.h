// SPDX-License-Identifier: Apache-2.0
// Latencies counted in the request meter's histogram: of some looks, or of all with the old ones
// fading. Times in ns. A plain value.
#pragma once

#include <array>
#include <cstdint>

#include "bpf/meter.h"

namespace spillway::agent {

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

}  // namespace spillway::agent
