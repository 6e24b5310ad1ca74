// SPDX-License-Identifier: Apache-2.0
// When requests come: one run's arrivals, in ns since it began. Keeps a reference; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/random.h"
#include "sim/scenario/scenario.h"

namespace spillway::sim {

class ArrivalTimes {
 public:
  ArrivalTimes(const Arrivals& arrivals, double rate_rps, uint64_t seed);
  int64_t Next();

 private:
  double OnOff();
  double Jump();

  const Arrivals& arrivals_;
  double gap_ns_, now_ = 0, lap_ = 0, scale_ = 0;
  size_t next_ = 0;
  uint64_t laps_ = 0;
  Random random_;
};

}  // namespace spillway::sim
