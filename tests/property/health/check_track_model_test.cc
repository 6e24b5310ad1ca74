// SPDX-License-Identifier: Apache-2.0
// Random rows of results against a slow model that keeps all of them and looks back.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "health/check_track.h"

namespace spillway::health {
namespace {

using std::chrono::milliseconds;

struct Event {
  bool passed;
  TimePoint at;
};

// Says from all events so far what holds; nothing is counted along.
class Model {
 public:
  explicit Model(const TrackRules& rules) : rules_(rules) {}

  CheckState After(const Event& event) {
    events_.push_back(event);
    if (state_ == CheckState::kUnknown) {
      Enter(event.passed ? CheckState::kUp : CheckState::kFailing, event.at);
    } else if (state_ == CheckState::kUp && LastAre(false, rules_.fall)) {
      Enter(CheckState::kFailing, event.at);
    } else if (state_ == CheckState::kFailing && LastAre(true, rules_.rise) && event.at >= held_until_) {
      Enter(CheckState::kUp, event.at);
    }
    return state_;
  }
  TimePoint held_until() const { return held_until_; }

 private:
  bool LastAre(bool passed, size_t count) const {
    return events_.size() >= count && std::all_of(events_.end() - static_cast<long>(count), events_.end(),
                                                  [&](const Event& e) { return e.passed == passed; });
  }
  void Enter(CheckState state, TimePoint at) {
    if (state == CheckState::kFailing) {
      // Failures of the row that this one ends: back to the last long time up.
      size_t earlier = 0;
      for (size_t i = falls_.size(); i-- > 0;) {
        const TimePoint back = backs_[i], next_fall = i + 1 < falls_.size() ? falls_[i + 1] : at;
        if (next_fall - back >= rules_.dampening_limit) break;
        earlier++;
      }
      milliseconds hold{0};
      if (rules_.dampening.count() > 0 && earlier > 0) {
        hold = rules_.dampening;
        for (size_t i = 1; i < earlier && hold < rules_.dampening_limit; i++) hold *= 2;
        hold = std::min(hold, rules_.dampening_limit);
      }
      held_until_ = at + hold;
      falls_.push_back(at);
    } else if (state_ == CheckState::kFailing) {
      backs_.push_back(at);
    }
    state_ = state;
  }

  const TrackRules rules_;
  CheckState state_ = CheckState::kUnknown;
  std::vector<Event> events_;
  std::vector<TimePoint> falls_, backs_;
  TimePoint held_until_{};
};

TEST(CheckTrackProperty, AgreesWithTheModelOnRandomResults) {
  std::mt19937_64 random(15);
  const auto below = [&random](uint32_t n) {
    return std::uniform_int_distribution<uint32_t>(0, n - 1)(random);
  };
  for (int round = 0; round < 400; round++) {
    TrackRules rules;
    rules.rise = 1 + below(4);
    rules.fall = 1 + below(4);
    rules.dampening = milliseconds(below(3) * 1500);
    rules.dampening_limit = std::max(rules.dampening, milliseconds(below(40) * 1000));
    TimePoint now{std::chrono::hours(1)};
    CheckTrack track(rules, now);
    Model model(rules);
    const uint32_t good = 1 + below(9);  // in ten
    CheckState before = track.state();
    for (int i = 0; i < 300; i++) {
      now += milliseconds(1 + below(2000)) +
             (below(50) == 0 ? std::chrono::seconds(40) : std::chrono::seconds(0));
      const bool passed = below(10) < good;
      const bool changed = track.Record(passed, "why", now);
      const CheckState expected = model.After({passed, now});
      ASSERT_EQ(track.state(), expected) << "round " << round << ", result " << i;
      ASSERT_EQ(changed, before != expected);
      if (changed) {
        ASSERT_EQ(track.since(), now);
      }
      if (expected == CheckState::kFailing) {
        ASSERT_EQ(track.held_until(), model.held_until()) << "round " << round << ", result " << i;
      }
      before = expected;
    }
  }
}

}  // namespace
}  // namespace spillway::health
