// SPDX-License-Identifier: Apache-2.0
#include "check_track.h"

#include <algorithm>
#include <utility>

namespace spillway::health {

const char* ToString(CheckState state) {
  switch (state) {
    case CheckState::kUnknown:
      return "unknown";
    case CheckState::kUp:
      return "up";
    case CheckState::kFailing:
      return "failing";
  }
  return "";
}

void CheckTrack::GoOnFrom(const CheckTrack& before, bool asks_the_same) {
  const TrackRules rules = rules_;
  *this = before;
  rules_ = rules;
  held_until_ = since_;
  flaps_ = state_ == CheckState::kFailing ? 1 : 0;
  if (asks_the_same) return;
  next_decides_ = true;
  passes_ = failures_ = 0;
}

bool CheckTrack::Skip(TimePoint now) {
  if (!next_decides_ || state_ == CheckState::kUnknown) return false;
  state_ = CheckState::kUnknown;
  since_ = held_until_ = now;
  return true;
}

bool CheckTrack::ExcuseStall() {
  if (excused_ == kMaxExcused) return false;
  excused_++;
  return true;
}

bool CheckTrack::Record(bool passed, const std::string& reason, TimePoint now) {
  if (passed && passes_ == 0) first_pass_ = now;
  if (passed) {
    last_pass_ = now;
    excused_ = 0;
  }
  passes_ = passed ? std::max(passes_ + 1, passes_) : 0;
  failures_ = passed ? 0 : failures_ + 1;
  if (!passed) reason_ = reason;
  const CheckState before = state_;
  const bool decides = std::exchange(next_decides_, false);
  if (state_ == CheckState::kFailing) {
    if (decides ? passed : passes_ >= rules_.rise && now >= held_until_) state_ = CheckState::kUp;
  } else if (decides ? !passed : failures_ >= rules_.fall) {
    Fail(now);
  } else if (decides) {
    state_ = CheckState::kUp;
  }
  if (state_ == before) return false;
  since_ = now;
  return true;
}

void CheckTrack::Fail(TimePoint now) {
  if (state_ == CheckState::kUp && now - since_ >= rules_.dampening_limit) flaps_ = 0;
  held_until_ = now + Hold();
  flaps_++;
  state_ = CheckState::kFailing;
}

std::chrono::milliseconds CheckTrack::Hold() const {
  if (flaps_ == 0 || rules_.dampening.count() == 0) return std::chrono::milliseconds(0);
  const uint32_t doublings = std::min(flaps_ - 1, 30u);  // of at most an hour: far from an overflow
  return std::min(rules_.dampening * (int64_t{1} << doublings), rules_.dampening_limit);
}

}  // namespace spillway::health
