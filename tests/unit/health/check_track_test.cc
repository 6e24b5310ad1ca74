// SPDX-License-Identifier: Apache-2.0
#include "health/check_track.h"

#include <gtest/gtest.h>

namespace spillway::health {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A track and its clock: one result per second.
class Track : public ::testing::Test {
 protected:
  bool Pass() { return Record(true); }
  bool Fail(const std::string& reason = "refused") { return Record(false, reason); }
  void Rest(seconds time) { now_ += time; }
  void Rules(const TrackRules& rules) { track_ = CheckTrack(rules, now_); }
  // From up to failing with the fewest failures; how long it is then held.
  milliseconds FailUntilHeld() {
    while (track_.state() != CheckState::kFailing) Fail();
    return std::chrono::duration_cast<milliseconds>(track_.held_until() - track_.since());
  }
  void ComeBack() {
    while (track_.state() != CheckState::kUp) Pass();
  }

  TimePoint now_{seconds(1000)};
  CheckTrack track_{{.rise = 2, .fall = 3}, now_};

 private:
  bool Record(bool passed, const std::string& reason = "") {
    now_ += seconds(1);
    return track_.Record(passed, reason, now_);
  }
};

TEST_F(Track, NothingIsKnownBeforeTheFirstResult) { EXPECT_EQ(track_.state(), CheckState::kUnknown); }

TEST_F(Track, TheFirstResultDecidesAtOnce) {
  EXPECT_TRUE(Fail("timeout"));
  EXPECT_EQ(track_.state(), CheckState::kFailing);
  EXPECT_EQ(track_.reason(), "timeout");
  EXPECT_EQ(track_.since(), now_);
  Rules({.rise = 2, .fall = 3});
  EXPECT_TRUE(Pass());
  EXPECT_EQ(track_.state(), CheckState::kUp);
}

TEST_F(Track, FailsAfterFallFailuresInARow) {
  Pass();
  EXPECT_FALSE(Fail());
  EXPECT_FALSE(Fail());
  EXPECT_TRUE(Fail("last"));
  EXPECT_EQ(track_.state(), CheckState::kFailing);
  EXPECT_EQ(track_.reason(), "last");
}

// Else whoever keeps the checker busy keeps dead units in use.
TEST_F(Track, StallsExcuseFewChecksSinceTheLastPass) {
  for (int times = 0; times < 2; times++) {
    Pass();
    for (uint32_t i = 0; i < CheckTrack::kMaxExcused; i++) EXPECT_TRUE(track_.ExcuseStall());
    EXPECT_FALSE(track_.ExcuseStall());
    Fail();
    EXPECT_FALSE(track_.ExcuseStall()) << "a failure is no pass";
  }
}

TEST_F(Track, GoesOnByOtherRules) {
  Pass();
  Fail();
  CheckTrack next({.rise = 1, .fall = 2}, now_ + seconds(1));
  next.GoOnFrom(track_, true);
  EXPECT_EQ(next.state(), CheckState::kUp);
  EXPECT_TRUE(next.Record(false, "second in a row", now_ + seconds(1)));
  EXPECT_TRUE(next.Record(true, "", now_ + seconds(2)));
}

TEST_F(Track, DampeningBeginsAnewWithOtherRules) {
  const TrackRules rules{.rise = 1, .fall = 1, .dampening = seconds(100), .dampening_limit = seconds(1000)};
  Rules(rules);
  Pass();
  FailUntilHeld();
  ComeBack();
  EXPECT_EQ(FailUntilHeld(), seconds(100));
  CheckTrack next(rules, now_);
  next.GoOnFrom(track_, true);
  EXPECT_EQ(next.state(), CheckState::kFailing);
  EXPECT_TRUE(next.Record(true, "", now_ + seconds(1)));
  EXPECT_TRUE(next.Record(false, "again", now_ + seconds(2)));
  EXPECT_EQ(next.held_until(), now_ + seconds(102));
}

TEST_F(Track, OfAnotherQuestionTheFirstResultDecides) {
  FailUntilHeld();
  const TimePoint since = track_.since();
  CheckTrack next({.rise = 2, .fall = 3}, now_);
  next.GoOnFrom(track_, false);
  EXPECT_EQ(next.state(), CheckState::kFailing);
  EXPECT_FALSE(next.Record(false, "still", now_));
  EXPECT_EQ(next.since(), since);
  next.GoOnFrom(next, false);
  EXPECT_TRUE(next.Record(true, "", now_));
  EXPECT_EQ(next.state(), CheckState::kUp);
  next.GoOnFrom(next, false);
  EXPECT_TRUE(next.Record(false, "at once", now_));
}

TEST_F(Track, OfAnotherQuestionThatCannotBeAskedNothingIsKnown) {
  FailUntilHeld();
  EXPECT_FALSE(track_.Skip(now_)) << "what it found holds";
  CheckTrack next({.rise = 2, .fall = 3}, now_);
  next.GoOnFrom(track_, false);
  EXPECT_TRUE(next.Skip(now_));
  EXPECT_EQ(next.state(), CheckState::kUnknown);
  EXPECT_FALSE(next.Skip(now_));
  EXPECT_TRUE(next.Record(false, "at once", now_));
}

TEST_F(Track, KnowsTheFirstAndTheLastOfThePassesInARow) {
  EXPECT_FALSE(track_.passing());
  Pass();
  const TimePoint first = now_;
  Pass();
  Pass();
  EXPECT_TRUE(track_.passing());
  EXPECT_EQ(track_.first_pass(), first);
  EXPECT_EQ(track_.last_pass(), now_);
  Fail();
  EXPECT_FALSE(track_.passing());
  EXPECT_EQ(track_.state(), CheckState::kUp) << "one failure is not yet failing";
  Pass();
  EXPECT_EQ(track_.first_pass(), now_);
}

TEST_F(Track, APassInBetweenStartsTheCountAnew) {
  Pass();
  for (int i = 0; i < 5; i++) {
    Fail();
    Fail();
    EXPECT_FALSE(Pass());
  }
  EXPECT_EQ(track_.state(), CheckState::kUp);
}

TEST_F(Track, ComesBackAfterRisePassesInARow) {
  Fail();
  EXPECT_FALSE(Pass());
  EXPECT_FALSE(Fail());
  EXPECT_FALSE(Pass());
  EXPECT_TRUE(Pass());
  EXPECT_EQ(track_.state(), CheckState::kUp);
  EXPECT_EQ(track_.reason(), "refused") << "what was wrong last stays to be read";
}

TEST_F(Track, OneThatFlapsWaitsTwiceAsLongEachTimeUpToTheLimit) {
  Rules({.rise = 1, .fall = 1, .dampening = seconds(5), .dampening_limit = seconds(30)});
  for (const int64_t expected_s : {0, 5, 10, 20, 30, 30}) {
    EXPECT_EQ(FailUntilHeld(), seconds(expected_s));
    const TimePoint failed = now_;
    ComeBack();
    EXPECT_GE(now_ - failed, seconds(expected_s));
    EXPECT_LE(now_ - failed, seconds(expected_s + 1)) << "back with the first pass after the hold";
  }
}

TEST_F(Track, OneThatWasUpForTheLimitStartsAfresh) {
  Rules({.rise = 1, .fall = 1, .dampening = seconds(5), .dampening_limit = seconds(30)});
  FailUntilHeld();
  ComeBack();
  EXPECT_EQ(FailUntilHeld(), seconds(5));
  ComeBack();
  Rest(seconds(30));
  EXPECT_EQ(FailUntilHeld(), seconds(0));
}

TEST_F(Track, WithoutDampeningNobodyIsHeld) {
  Rules({.rise = 1, .fall = 1, .dampening = seconds(0), .dampening_limit = seconds(30)});
  for (int i = 0; i < 40; i++) {
    EXPECT_EQ(FailUntilHeld(), seconds(0));
    ComeBack();
  }
}

TEST_F(Track, AThousandFlapsOverflowNothing) {
  Rules(
      {.rise = 1, .fall = 1, .dampening = std::chrono::hours(1), .dampening_limit = std::chrono::hours(24)});
  FailUntilHeld();
  for (int i = 0; i < 1000; i++) {
    Rest(std::chrono::hours(24));  // over the hold
    ComeBack();
    EXPECT_GE(FailUntilHeld(), seconds(3600));
    EXPECT_LE(FailUntilHeld(), std::chrono::hours(24));
  }
}

}  // namespace
}  // namespace spillway::health
