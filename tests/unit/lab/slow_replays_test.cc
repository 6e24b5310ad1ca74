// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace spillway::lab {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Slice ASliceThatTook(double times, uint64_t sent = 0) {
  Slice slice;
  slice.units = {{times * 0.1, 100}};
  slice.sample.sent = sent;
  return slice;
}

class SlowReplays : public testing::Test {
 protected:
  // Two policies of six rounds, in which nothing was slow.
  SlowReplays() { level_.slices.assign(2, std::vector<Slice>(6, ASliceThatTook(1))); }
  // Each play of a round is one in which the first policy took the next of `times`, and then 1.
  Result<void> PlayAgain(std::vector<double> times) {
    return PlaySlowAgain(level_, [&, next = size_t{0}](size_t round) mutable -> Result<std::vector<Slice>> {
      played_.push_back(round);
      std::vector<Slice> slices(2, ASliceThatTook(1, 7));
      if (next < times.size()) slices[0] = ASliceThatTook(times[next], 7);
      slices[0].replays = 1;
      next++;
      return slices;
    });
  }

  Level level_;
  std::vector<size_t> played_;
};

TEST_F(SlowReplays, NothingIsPlayedAgainWhereTheMachineWasNotSlow) {
  ASSERT_TRUE(PlayAgain({}));
  EXPECT_THAT(played_, IsEmpty());
}

TEST_F(SlowReplays, TheSlowestComesFirstAndTheQuickerRoundIsKeptOfAllPolicies) {
  level_.slices[0][2] = ASliceThatTook(1.3);
  level_.slices[1][5] = ASliceThatTook(1.6);
  level_.slices[0][5].replays = 2;
  ASSERT_TRUE(PlayAgain({1, 1}));
  EXPECT_THAT(played_, ElementsAre(5, 2));
  for (const auto& slices : level_.slices) {
    EXPECT_EQ(slices[5].sample.sent, 7u) << "the other policy's too: it was compared with a slow slice";
    EXPECT_EQ(slices[2].sample.sent, 7u);
    EXPECT_EQ(slices[3].sample.sent, 0u);
  }
  EXPECT_EQ(level_.slices[0][5].replays, 4) << "those of both, and this one";
  EXPECT_EQ(level_.slices[1][5].replays, 1);
}

TEST_F(SlowReplays, WhatIsNoQuickerDoesNotReplaceItAndIsTriedTwice) {
  level_.slices[0][2] = ASliceThatTook(1.3);
  ASSERT_TRUE(PlayAgain({1.4, 1.5}));
  EXPECT_THAT(played_, ElementsAre(2, 2));
  for (const auto& slices : level_.slices) EXPECT_EQ(slices[2].sample.sent, 0u);
  EXPECT_EQ(level_.slices[0][2].replays, 4);
}

TEST_F(SlowReplays, AQuarterOfTheLevelsRoundsIsPlayedAgainAtMost) {
  for (auto& slices : level_.slices)
    for (size_t round = 3; round < 6; round++) slices[round] = ASliceThatTook(1.5);
  ASSERT_TRUE(PlayAgain(std::vector<double>(100, 2)));
  EXPECT_EQ(played_.size(), 2u) << "a quarter of six, rounded up";
}

TEST_F(SlowReplays, ErrorsArePassedOn) {
  level_.slices[0][2] = ASliceThatTook(1.3);
  EXPECT_FALSE(PlaySlowAgain(level_, [](size_t) -> Result<std::vector<Slice>> {
    return Fail(ErrorCode::kSystem, "the client failed");
  }));
}

}  // namespace
}  // namespace spillway::lab
