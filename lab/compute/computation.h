// SPDX-License-Identifier: Apache-2.0
// What a worker does for a request: real work, whose result goes into the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>

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

}  // namespace spillway::compute
