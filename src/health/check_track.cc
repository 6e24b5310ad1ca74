// SPDX-License-Identifier: Apache-2.0
#include "check_track.h"

#include <algorithm>

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

bool CheckTrack::Record(bool passed, const std::string& reason, TimePoint now) {
  if (passed && passes_ == 0) first_pass_ = now;
  if (passed) last_pass_ = now;
  passes_ = passed ? std::max(passes_ + 1, passes_) : 0;
  failures_ = passed ? 0 : failures_ + 1;
  if (!passed) reason_ = reason;
  const CheckState before = state_;
  switch (state_) {
    case CheckState::kUnknown:
      if (passed)
        state_ = CheckState::kUp;
      else
        Fail(now);
      break;
    case CheckState::kUp:
      if (failures_ >= rules_.fall) Fail(now);
      break;
    case CheckState::kFailing:
      if (passes_ >= rules_.rise && now >= held_until_) state_ = CheckState::kUp;
      break;
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
