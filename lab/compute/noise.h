// SPDX-License-Identifier: Apache-2.0
// Numbers that look random and are not: the same seed and index give the same number on any machine, in
// any order (the finalizer of SplitMix64: Steele, Lea, Flood, OOPSLA 2014). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace spillway::compute {

inline std::uint64_t Noise(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = seed + (index + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Uniform in [-1, 1).
inline float SignedNoise(std::uint64_t seed, std::uint64_t index) {
  return static_cast<float>(static_cast<std::int64_t>(Noise(seed, index)) >> 40) * 0x1p-23f;
}

inline void FillWithNoise(std::span<float> to, std::uint64_t seed, float scale) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = scale * SignedNoise(seed, i);
}

}  // namespace spillway::compute
