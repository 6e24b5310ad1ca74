// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/machine_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace spillway::lab {
namespace {

// A machine that disturbs the first `bad` plays, and the order of what happens.
struct Course {
  explicit Course(int bad_plays = 0) : bad(bad_plays) {}

  int bad;
  std::string order;
  int plays = 0;

  void Begin() { order += 'b'; }
  Disturbance End() {
    order += 'e';
    Disturbance disturbance;
    disturbance.late_wakes = plays <= bad ? 1 : 0;
    return disturbance;
  }
  Result<Played<int>> Play() {
    return PlayUndisturbed(
        *this,
        [&]() -> Result<void> {
          order += 'r';
          return {};
        },
        [&]() -> Result<int> {
          order += 'p';
          return ++plays;
        });
  }
};

TEST(Undisturbed, OnePlayIsEnoughOnAQuietMachineAndMakingReadyIsNotWatched) {
  Course course;
  const auto played = course.Play();
  ASSERT_TRUE(played);
  EXPECT_EQ(course.order, "rbpe");
  EXPECT_EQ(played->result, 1);
  EXPECT_EQ(played->replays, 0);
}

TEST(Undisturbed, WhatWasDisturbedIsPlayedAgainAndTheQuietPlayCounts) {
  Course course(1);
  const auto played = course.Play();
  ASSERT_TRUE(played);
  EXPECT_EQ(course.order, "rbperbpe");
  EXPECT_EQ(played->result, 2);
  EXPECT_EQ(played->replays, 1);
  EXPECT_FALSE(played->disturbance.disturbed());
}

TEST(Undisturbed, AMachineThatIsNeverQuietIsGivenUp) {
  Course course(100);
  const auto played = course.Play();
  ASSERT_TRUE(played);
  EXPECT_EQ(played->result, kMaxReplays + 1);
  EXPECT_TRUE(played->disturbance.disturbed()) << "and it is said";
}

TEST(Undisturbed, AnErrorEndsItEvenOnADisturbedMachine) {
  Course course(100);
  const auto fails = [&]() -> Result<int> { return Fail(ErrorCode::kSystem, "gone"); };
  EXPECT_EQ(PlayUndisturbed(
                course, []() -> Result<void> { return {}; }, fails)
                .error()
                .message,
            "gone");
  EXPECT_EQ(course.order, "be") << "the watch has ended";
  const auto never_ready = []() -> Result<void> { return Fail(ErrorCode::kSystem, "busy"); };
  EXPECT_EQ(PlayUndisturbed(course, never_ready, fails).error().message, "busy");
}

}  // namespace
}  // namespace spillway::lab
