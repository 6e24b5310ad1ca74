// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::lab {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Measurement At(const char* policy, double load, double p99, double answered) {
  return {policy, load, load * 100, 1, p99, answered};
}

TEST(Verdict, LoadBeforeLossIsTheHighestAnsweredAndLossBelowItIsTold) {
  auto verdicts =
      Judge(Summarise({At("a", 50, 1, 100), At("a", 80, 1, 90), At("a", 90, 1, 100), At("a", 95, 1, 50)}), 1);
  EXPECT_EQ(verdicts[0].load_before_loss_pct, 90);
  EXPECT_THAT(verdicts[0].disturbed_pct, ElementsAre(80));
}

TEST(Verdict, AllLostMeansEveryPolicyAtThatLevel) {
  auto rows = Summarise({At("a", 80, 1, 90), At("b", 80, 1, 100), At("a", 90, 1, 90), At("b", 90, 1, 98)});
  EXPECT_FALSE(AllLost(rows, 80, 1));
  EXPECT_TRUE(AllLost(rows, 90, 1));
}

TEST(Verdict, RatioIsOfTheRatesBeforeLoss) {
  auto verdicts = Judge(
      Summarise({At("a", 80, 1, 100), At("b", 80, 1, 100), At("a", 96, 1, 50), At("b", 96, 1, 99.5)}), 1);
  ASSERT_TRUE(verdicts[1].load_ratio);
  EXPECT_DOUBLE_EQ(*verdicts[1].load_ratio, 1.2);
}

TEST(Verdict, LossAtTheLowestLevelGivesNoLoadAndNoRatio) {
  auto verdicts = Judge(Summarise({At("a", 50, 1, 10), At("b", 50, 1, 100)}), 1);
  EXPECT_FALSE(verdicts[0].load_before_loss_pct);
  EXPECT_FALSE(verdicts[1].load_ratio);
}

TEST(Verdict, ADifferenceWithinTheRoundsSpreadIsNotBeyondNoise) {
  auto verdicts =
      Judge(Summarise({At("a", 50, 1, 100), At("a", 50, 3, 100), At("a", 50, 4, 100), At("b", 50, 2, 100),
                       At("b", 50, 5, 100), At("b", 50, 6, 100), At("a", 80, 1, 100), At("b", 80, 2, 100)}),
            1);
  EXPECT_THAT(verdicts[1].p99_above_pct, ElementsAre(50, 80));
  EXPECT_THAT(verdicts[1].p99_clearly_above_pct, ElementsAre(80));
  EXPECT_THAT(verdicts[0].p99_above_pct, IsEmpty());
}

TEST(Comparison, TheNoiseBandReachesToTheOthersWorstRound) {
  const auto rows =
      Summarise({At("a", 50, 4, 100), At("a", 50, 5, 100), At("a", 50, 7, 100), At("b", 50, 5, 100),
                 At("a", 80, 4, 100), At("a", 80, 5, 100), At("a", 80, 7, 100), At("b", 80, 6, 100),
                 At("a", 90, 4, 100), At("a", 90, 5, 100), At("a", 90, 7, 100), At("b", 90, 8, 100),
                 At("b", 95, 1, 100)});
  const Comparison c = Compare(rows, "b", "a");
  EXPECT_THAT(c.at_or_below_pct, ElementsAre(50));
  EXPECT_THAT(c.within_band_pct, ElementsAre(80));
  EXPECT_THAT(c.above_pct, ElementsAre(90));
}

TEST(Accuracy, IsTheMedianRatioOverThePolicysPredictedLevels) {
  auto rows = Summarise({At("a", 50, 6, 100), At("a", 80, 4, 100), At("a", 90, 9, 100), At("b", 50, 1, 100)});
  EXPECT_FALSE(AccuracyOf(rows, "a"));
  rows[0].predicted = Forecast{2, 2, 0};
  rows[1].predicted = Forecast{1, 2, 0};
  rows[2].predicted = Forecast{0.5, 9, 0};
  const auto accuracy = AccuracyOf(rows, "a");
  ASSERT_TRUE(accuracy);
  EXPECT_DOUBLE_EQ(accuracy->p50_ratio, 1);
  EXPECT_DOUBLE_EQ(accuracy->p99_ratio, 2);
  EXPECT_FALSE(AccuracyOf(rows, "b"));
}

}  // namespace
}  // namespace spillway::lab
