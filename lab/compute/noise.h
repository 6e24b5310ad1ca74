// SPDX-License-Identifier: Apache-2.0
// Numbers that look random and are not: the same seed and index give the same number on any machine, in
// any order. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/random.h"

namespace spillway::compute {

inline std::uint64_t Noise(std::uint64_t seed, std::uint64_t index) {
  return base::SplitMix64::At(seed, index);
}

// Uniform in [-1, 1).
inline float SignedNoise(std::uint64_t seed, std::uint64_t index) {
  return static_cast<float>(static_cast<std::int64_t>(Noise(seed, index)) >> 40) * 0x1p-23f;
}

inline void FillWithNoise(std::span<float> to, std::uint64_t seed, float scale) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = scale * SignedNoise(seed, i);
}

}  // namespace spillway::compute
