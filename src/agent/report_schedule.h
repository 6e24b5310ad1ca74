// SPDX-License-Identifier: Apache-2.0
// When to report: at every change of the busy bit or of the failing one, at every look while the unit fails
// and a few times after, and at least once per period (periodic) or heartbeat (on-threshold). Pure: time is
// an argument.
#pragma once

#include <optional>

#include "agent/config.h"
#include "agent/reading.h"

namespace spillway::agent {

class ReportSchedule {
 public:
  explicit ReportSchedule(const ReportConfig& config)
      : interval_(config.mode == ReportMode::kPeriodic ? config.period : config.heartbeat) {}

  bool Due(Time now, bool changed) const {
    return changed || repeats_ > 0 || !last_ || now - *last_ >= interval_;
  }
  void Sent(Time now) {
    last_ = now;
    if (repeats_ > 0) repeats_--;
  }
  // The unit fails, or has just ceased to: lost, that report would cost more than another.
  void Repeat() { repeats_ = kRepeats; }

 private:
  static constexpr int kRepeats = 3;

  Duration interval_;
  int repeats_ = 0;
  std::optional<Time> last_;
};

}  // namespace spillway::agent
