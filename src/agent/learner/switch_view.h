// SPDX-License-Identifier: Apache-2.0
// What the switch believes of the unit between two reports: the last report's backlog, drained by the clock,
// and a slot for each request since (core/load.h, core/headroom.h); and what a request costs, as last
// reported. So the agent knows when the switch is wrong. All requests count as this switch's; a guessed slot
// is taken to be the one that the switch uses, though it may raise that by capacity. Pure: time is an
// argument.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "agent/learner/outcome_learner.h"

namespace spillway::agent {

class SwitchView {
 public:
  using Time = std::chrono::nanoseconds;

  // arrivals: the meter's counter; when, since the last call, they came is not known. queue: requests in the
  // unit.
  void Advance(Time now, uint64_t arrivals, uint32_t queue) {
    if (arrivals > arrivals_) {
      const auto more = static_cast<int64_t>(arrivals - arrivals_);
      drained_.soonest = std::max(drained_.soonest, at_) + more * slot_;  // all came at once
      // Or evenly: then the first came so much later, and the last just now.
      const Time first = (now - at_) / more;
      drained_.latest = std::max(std::max(drained_.latest, at_ + first) + more * slot_, now + slot_);
    }
    if (arrivals != arrivals_ || queue > 0) active_ = now;
    arrivals_ = arrivals;
    at_ = now;
  }
  // The switch has just been told.
  void Reported(const Learnt& learnt) {
    drained_.soonest = drained_.latest = at_ + std::chrono::microseconds(learnt.backlog_us);
    slot_ = Time(learnt.slot_ns);
    cost_us_ = CostUs(learnt);
  }
  // By so much that the switch may choose otherwise. untimed: requests that the meter's clocks do not hold
  // yet.
  bool IsWrong(const Learnt& learnt, uint32_t untimed) const {
    const Time backlog = std::chrono::microseconds(learnt.backlog_us),
               tolerated = std::chrono::microseconds(learnt.base_us / kTolerated) + untimed * slot_;
    return backlog > std::max(drained_.latest - at_, Time{0}) + tolerated ||
           backlog < std::max(drained_.soonest - at_, Time{0}) - tolerated ||
           Differ(CostUs(learnt), cost_us_) || Differ(learnt.slot_ns, static_cast<uint64_t>(slot_.count()));
  }

  // When to compare again, if that is to be done each `check` while requests come.
  Time NextCheck(Time check) const {
    return at_ + (at_ - active_ < kQuiet ? check : std::max(check, kQuiet));
  }

 private:
  // Of an unqueued latency: units that differ by less count as equally quick (SPW_ALIKE_SHIFT).
  static constexpr uint32_t kTolerated = 4;
  static uint64_t CostUs(const Learnt& learnt) { return uint64_t{learnt.base_us} + learnt.price_us; }
  static bool Differ(uint64_t a, uint64_t b) {  // by a quarter of the larger
    return std::max(a, b) - std::min(a, b) > std::max(a, b) / kTolerated;
  }
  static constexpr Time kQuiet = std::chrono::milliseconds(20);  // without requests

  Time at_{0}, active_{0}, slot_{0};
  struct {
    Time soonest{0}, latest{0};
  } drained_;
  uint64_t arrivals_ = 0;
  uint64_t cost_us_ = 0;
};

}  // namespace spillway::agent
