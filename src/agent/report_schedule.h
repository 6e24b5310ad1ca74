// SPDX-License-Identifier: Apache-2.0
// When to report: at every change of the busy bit, and at least once per period (periodic) or
// heartbeat (on-threshold). Pure: time is an argument.
#pragma once

#include <optional>

#include "agent/config.h"
#include "agent/reading.h"

namespace spillway::agent {

class ReportSchedule {
 public:
  explicit ReportSchedule(const ReportConfig& config)
      : interval_(config.mode == ReportMode::kPeriodic ? config.period : config.heartbeat) {}

  bool Due(Time now, bool changed) const { return changed || !last_ || now - *last_ >= interval_; }
  void Sent(Time now) { last_ = now; }

 private:
  Duration interval_;
  std::optional<Time> last_;
};

}  // namespace spillway::agent
