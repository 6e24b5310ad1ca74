// SPDX-License-Identifier: Apache-2.0
// Cumulative totals, look by look -> Reading. Pure: time is an argument.
#pragma once

#include <cstdint>
#include <optional>

#include "agent/meters/meter_memory.h"
#include "agent/meters/reading.h"

namespace spillway::agent {

class LatencyWindow {
 public:
  // window: time constant of the smoothing.
  explicit LatencyWindow(Duration window) : window_(window) {}

  Reading Update(Time now, const MeterTotals& totals);
  // Requests a second over about the last second; for the choice of the sample.
  double rate() const { return rate_; }
  uint64_t given_up() const { return given_up_; }

 private:
  Duration window_;
  std::optional<MeterTotals> last_;
  Time last_look_{0}, last_answer_{0};
  double smoothed_ns_ = 0;  // 0: no measurement yet
  Time last_measured_{0};
  double rate_ = 0;
  uint64_t given_up_ = 0;
};

}  // namespace spillway::agent
