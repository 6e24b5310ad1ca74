// SPDX-License-Identifier: Apache-2.0
// Numbers that look random and are the same on every machine: a counter through a mixer (SplitMix64: Steele,
// Lea, Flood, OOPSLA 2014). Not for secrets. A value.
#pragma once

#include <cstdint>

#include "core/ring_build.h"

namespace spillway::base {

class SplitMix64 {
 public:
  // Between the states of the counter: 2^64 over the golden ratio.
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t Bits() { return spw_mix64(state_ += kStep); }
  // 0 .. bound - 1; so little off an equal share as bound is below 2^64.
  uint64_t Below(uint64_t bound) { return Bits() % bound; }

  // The one after `index` others of that seed.
  [[nodiscard]] static uint64_t At(uint64_t seed, uint64_t index) {
    return spw_mix64(seed + (index + 1) * kStep);
  }

 private:
  uint64_t state_;
};

}  // namespace spillway::base
