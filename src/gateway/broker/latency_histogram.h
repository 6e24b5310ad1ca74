// SPDX-License-Identifier: Apache-2.0
// How many of a tenant's requests took how long, in the buckets that its metrics have. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace spillway::gateway {

class LatencyHistogram {
 public:
  using Duration = std::chrono::nanoseconds;
  // Upper bounds, in seconds; from what a window and a small kernel take to the longest deadlines. One more
  // bucket has no bound.
  static constexpr std::array<double, 14> kBounds = {0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                                     0.05,   0.1,    0.2,   0.5,   1,     5,    30};

  void Add(Duration took) {
    const double seconds = std::chrono::duration<double>(took).count();
    counts_[static_cast<size_t>(std::lower_bound(kBounds.begin(), kBounds.end(), seconds) -
                                kBounds.begin())]++;
    sum_ += took;
  }

  [[nodiscard]] const std::array<uint64_t, kBounds.size() + 1>& counts() const { return counts_; }
  [[nodiscard]] Duration sum() const { return sum_; }

 private:
  std::array<uint64_t, kBounds.size() + 1> counts_{};
  Duration sum_{0};
};

}  // namespace spillway::gateway
