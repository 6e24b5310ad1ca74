// SPDX-License-Identifier: Apache-2.0
// When the agent reports (report.mode): at every change of the busy or the failing bit, and besides in each
// period (periodic), or once per heartbeat (on-threshold; more often while the unit fails and a little
// after). Beside these, the agent reports where the switch no longer knows the unit's backlog or cost
// (agent/learner/switch_view.h). Pure: time is an argument.
#pragma once

#include <optional>

#include "agent/config.h"
#include "agent/meters/reading.h"

namespace spillway::agent {

class ReportSchedule {
 public:
  explicit ReportSchedule(const ReportConfig& config) : config_(config) {}

  // regular: the look is one of those that come each period. A periodic report does not ask how long ago the
  // last one was: a look that is less late than the one before would seem to come too soon.
  bool Due(Time now, bool regular, bool news) const {
    if (news || !last_) return true;
    if (!regular) return false;
    return config_.mode == ReportMode::kPeriodic || repeats_ > 0 || now - *last_ >= config_.heartbeat;
  }
  void Sent(Time now) {
    last_ = now;
    if (repeats_ > 0) repeats_--;
  }
  // The unit fails, or has just ceased to: lost, that report would cost more than another.
  void Repeat() { repeats_ = kRepeats; }

 private:
  static constexpr int kRepeats = 3;

  ReportConfig config_;
  int repeats_ = 0;
  std::optional<Time> last_;
};

}  // namespace spillway::agent
