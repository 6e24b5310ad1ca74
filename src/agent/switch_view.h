// SPDX-License-Identifier: Apache-2.0
// What the switch believes of the unit's backlog between two reports: that of the last report, drained by the
// clock, and a slot for each request since (core/load.h, core/headroom.h). So the agent knows when the switch
// is wrong. Pure: time is an argument.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "agent/outcome_learner.h"

namespace spillway::agent {

class SwitchView {
 public:
  using Time = std::chrono::nanoseconds;

  // arrivals: the meter's counter. Requests since the last call count as if they had come halfway. queue:
  // those in the unit.
  void Advance(Time now, uint64_t arrivals, uint32_t queue) {
    if (arrivals > arrivals_)
      drained_ = std::max(drained_, at_ + (now - at_) / 2) + (arrivals - arrivals_) * slot_;
    if (arrivals != arrivals_ || queue > 0) active_ = now;
    arrivals_ = arrivals;
    at_ = now;
  }
  // The switch has just been told.
  void Reported(const Learnt& learnt) {
    drained_ = at_ + std::chrono::microseconds(learnt.backlog_us);
    slot_ = Time(learnt.slot_ns);
  }
  // Whether the switch is wrong by so much that it may choose otherwise.
  bool Errs(const Learnt& learnt) const {
    const Time miss = std::chrono::microseconds(learnt.backlog_us) - std::max(drained_ - at_, Time{0});
    return std::chrono::abs(miss) > std::chrono::microseconds(learnt.base_us) * kTolerated;
  }

  // When to compare again, if that is to be done each `check` while requests come.
  Time NextCheck(Time check) const {
    return at_ + (at_ - active_ < kQuiet ? check : std::max(check, kQuiet));
  }

 private:
  static constexpr double kTolerated = 0.25;  // of an unqueued latency: as units that count as equally quick

  static constexpr Time kQuiet = std::chrono::milliseconds(20);  // without requests

  Time at_{0}, active_{0}, drained_{0}, slot_{0};
  uint64_t arrivals_ = 0;
};

}  // namespace spillway::agent
