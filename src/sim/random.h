// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same on every machine (base/random.h). A stream of its own for each purpose, so
// that policies meet the same workload.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/random.h"

namespace spillway::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(spw_mix64(seed * base::SplitMix64::kStep + 0x632be59bd9b4e019ULL)) {}

  uint64_t Bits() { return bits_.Bits(); }
  // In (0, 1].
  double Uniform() { return static_cast<double>((Bits() >> 11) + 1) * 0x1p-53; }
  double Exponential() { return -std::log(Uniform()); }
  // Box-Muller; two at a time.
  double Normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(2 * Exponential()), angle = 2 * std::numbers::pi * Uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  base::SplitMix64 bits_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace spillway::sim
