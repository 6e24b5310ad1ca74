// SPDX-License-Identifier: Apache-2.0
// A CPU that is rationed: when work is done that gets so much CPU time in every period. Work is done in
// the order in which it is given, at full speed while the period's quota lasts. Not thread-safe.
#pragma once

#include <cstdint>

#include "sim/scenario.h"

namespace spillway::sim {

class RationedCpu {
 public:
  explicit RationedCpu(const Ration& ration) : quota_(ration.quota.count()), period_(ration.period.count()) {}

  // When `work` ns of CPU time, begun at `start`, are done. Starts do not go back. Periods begin at
  // multiples of their length, as the kernel's timer has them, and what is left of a quota lapses.
  int64_t Finish(int64_t start, int64_t work);

 private:
  int64_t quota_, period_;
  int64_t current_ = -1, used_ = 0;  // the period last worked in, and what it has given
};

// How long `work` ns of CPU time take on a CPU that has been idle, begun at any moment: the mean.
[[nodiscard]] int64_t MeanFinish(const Ration& ration, int64_t work);

}  // namespace spillway::sim
