// SPDX-License-Identifier: Apache-2.0
// What a worker does for a request: real work on generated numbers, whose result goes into the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>

#include "base/random.h"

namespace spillway::compute {

class Computation {
 public:
  virtual ~Computation() = default;

  // Works on question number `question` on the caller's thread alone; cost_milli scales the work: 1000 is
  // once, 0 is none. The same seed, question and cost give the same result on the same machine. `worker`
  // counts from 0: one call at a time for each, several workers at once. May return early, with any
  // result, once `stop` is requested.
  virtual std::uint64_t Answer(std::size_t worker, std::uint32_t question, std::uint32_t cost_milli,
                               const std::stop_token& stop) = 0;
};

// For computations that cannot do a part of one: how often they are done, rounded up.
inline std::uint32_t Repetitions(std::uint32_t cost_milli) {
  return cost_milli / 1000 + (cost_milli % 1000 != 0 ? 1 : 0);
}

// Numbers that look random and are not: the same seed and index give the same number on any machine, in
// any order. Pure.
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

// A checksum of what was computed (FNV-1a, 32 bits). Pure.
template <class T>
std::uint32_t Checksum(std::span<const T> values, std::uint32_t from = 0x811c9dc5) {
  for (std::byte byte : std::as_bytes(values))
    from = (from ^ std::to_integer<std::uint32_t>(byte)) * 0x01000193;
  return from;
}

}  // namespace spillway::compute
