// SPDX-License-Identifier: Apache-2.0
// What a row of check results says of one unit: rise, fall and dampening. Pure: time is an argument, steady.
//
//   unknown ──first result──► up        unknown ──first result──► failing
//   up ──`fall` failures in a row──► failing
//   failing ──`rise` passes in a row, and the hold is over──► up
//
// The first result decides at once, so that after a start nobody waits `fall` intervals for what a dead unit
// loses; so does the first after a change of what is asked, until which what was known before holds. The hold
// is what dampening adds: none for the first failing, then `dampening`, doubled with every further one up to
// `dampening_limit`; a unit that was up for `dampening_limit` starts afresh.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace spillway::health {

using TimePoint = std::chrono::steady_clock::time_point;

struct TrackRules {
  uint32_t rise = 0, fall = 0;  // results in a row; those of model::HealthCheck
  std::chrono::milliseconds dampening{0}, dampening_limit{0};
};

enum class CheckState : uint8_t { kUnknown, kUp, kFailing };
const char* ToString(CheckState state);

class CheckTrack {
 public:
  CheckTrack(const TrackRules& rules, TimePoint now) : rules_(rules), since_(now), held_until_(now) {}

  // Goes on from what is known by the check that this one replaces, but for dampening, which begins anew.
  // asks_the_same: it differs in its rules and times alone; else nothing counts of its results in a row, and
  // the next decides.
  void GoOnFrom(const CheckTrack& before, bool asks_the_same);

  // One check's result; `reason` says why it failed. Whether the state changed.
  bool Record(bool passed, const std::string& reason, TimePoint now);

  // The check could not be made. What another question's answers said ends there: nothing answers this one.
  // Whether the state changed.
  bool Skip(TimePoint now);

  // A check went unanswered while the checker itself stood still. Whether that excuses it: it does until
  // there were kMaxExcused since the last pass, so that nobody who keeps the checker busy keeps units from
  // failing.
  bool ExcuseStall();
  static constexpr uint32_t kMaxExcused = 2;

  CheckState state() const { return state_; }
  TimePoint since() const { return since_; }             // of this state
  const std::string& reason() const { return reason_; }  // of the last failure; empty: there was none
  TimePoint held_until() const { return held_until_; }   // a failing unit is not back before
  // Of the passes in a row up to the last result, the first and the last; of no meaning if that is a failure.
  bool passing() const { return passes_ > 0; }
  TimePoint first_pass() const { return first_pass_; }
  TimePoint last_pass() const { return last_pass_; }

 private:
  void Fail(TimePoint now);
  std::chrono::milliseconds Hold() const;

  TrackRules rules_;
  CheckState state_ = CheckState::kUnknown;
  bool next_decides_ = true;
  TimePoint since_, held_until_;
  uint32_t passes_ = 0, failures_ = 0;  // in a row, up to the last result
  uint32_t excused_ = 0;                // since the last pass
  TimePoint first_pass_{}, last_pass_{};
  uint32_t flaps_ = 0;  // times that it became failing without a long time up in between
  std::string reason_;
};

}  // namespace spillway::health
