// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace spillway::lab {
namespace {

using testing::ElementsAre;

// A slice of 100 requests, all answered after `ms`, of which `answered` at all.
Slice SliceOf(double ms, uint64_t answered = 100) {
  Slice slice;
  slice.sample.sent = 100;
  slice.sample.asked = 100;
  slice.sample.seconds = 1;
  slice.sample.latencies_ms.assign(answered, ms);
  return slice;
}

std::vector<Slice> Rounds(double ms, uint64_t answered = 100) {
  return std::vector<Slice>(5, SliceOf(ms, answered));
}

// Limit 50 ms, time-out 1 s.
std::vector<Row> RowsAt(double load_pct, std::vector<std::string> names,
                        std::vector<std::vector<Slice>> slices, size_t baseline = 0) {
  return Summarise({load_pct, 50, 1, std::move(names), std::move(slices)}, baseline, 1);
}

TEST(Rows, PoolTheSlicesAndCountWhatTheMachineDisturbed) {
  std::vector<Slice> slices = Rounds(2);
  slices[1] = SliceOf(9);
  slices[1].replays = 1;
  slices[2].replays = 2;
  slices[2].disturbance.late_wakes = 1;
  slices[3].sample.late_p99_ms = 0.5;
  const Row row = RowsAt(60, {"a"}, {slices}).front();
  EXPECT_EQ(row.rps, 100);
  EXPECT_EQ(row.p50_ms, 2);
  EXPECT_EQ(row.p99_ms, 9);
  EXPECT_EQ(row.slices, 5);
  EXPECT_EQ(row.replays, 3);
  EXPECT_EQ(row.disturbed, 1) << "one that was played again in peace is not";
  EXPECT_EQ(row.late_p99_ms, 0.5);
  EXPECT_FALSE(row.baseline) << "it is the baseline";
  EXPECT_FALSE(row.best);
}

TEST(Rows, CountTheSlicesInWhichTheMachineWasSlow) {
  std::vector<Slice> slices = Rounds(2);
  for (Slice& slice : slices) slice.units = {{0.1, 100}, {0.2, 50}};
  slices[1].units = {{0.15, 100}, {0.3, 50}};
  const Row row = RowsAt(60, {"a"}, {slices}).front();
  EXPECT_EQ(row.slow, 1);
  EXPECT_NEAR(row.cpu_ms, 3.3, 1e-9) << "of an answer, all units together";
}

TEST(Rows, ARequestWithoutAnAnswerStandsForTheTimeOut) {
  const Row row = RowsAt(60, {"a"}, {Rounds(2, 90)}).front();
  EXPECT_EQ(row.p99_ms, 1000);
  EXPECT_EQ(row.answered_pct, 90);
}

TEST(Rows, ALateAnswerIsNotOneInTime) { EXPECT_EQ(RowsAt(60, {"a"}, {Rounds(51)}).front().answered_pct, 0); }

TEST(Rows, OfAnInterruptedLevelTheRoundsThatAllFinishedCount) {
  Level level{60, 50, 1, {"a", "b"}, {Rounds(2), Rounds(3)}};
  level.slices[0].resize(4);
  level.slices[1].resize(3);
  ASSERT_TRUE(KeepWholeRounds(level));
  for (const Row& row : Summarise(level, 0, 1)) EXPECT_EQ(row.slices, 3);
  level.slices[1].clear();
  EXPECT_FALSE(KeepWholeRounds(level));
}

TEST(Rows, EachIsComparedWithTheBaselineAndTheBestOfTheOthers) {
  const auto rows = RowsAt(60, {"a", "b", "c"}, {Rounds(4), Rounds(2), Rounds(3)});
  EXPECT_EQ(rows[0].best->policy, "b");
  EXPECT_EQ(rows[1].best->policy, "c") << "not itself";
  EXPECT_EQ(rows[1].baseline->policy, "a");
  EXPECT_EQ(rows[1].baseline->p99.ratio, 0.5);
  EXPECT_EQ(rows[1].baseline->p99.verdict, P99Verdict::kBetter);
  EXPECT_EQ(rows[2].best->p99.verdict, P99Verdict::kHarmful);
  EXPECT_EQ(RowsAt(60, {"a", "b"}, {Rounds(4), Rounds(2)}, 1)[0].baseline->policy, "b");
}

std::vector<Row> Join(std::vector<std::vector<Row>> levels) {
  std::vector<Row> all;
  for (const auto& level : levels) all.insert(all.end(), level.begin(), level.end());
  return all;
}

TEST(Findings, ALittleLossBelowALoadThatIsAnsweredIsNamed) {
  const auto rows = Join({RowsAt(50, {"a"}, {Rounds(1)}), RowsAt(80, {"a"}, {Rounds(1, 98)}),
                          RowsAt(90, {"a"}, {Rounds(1)}), RowsAt(95, {"a"}, {Rounds(1, 50)})});
  const auto findings = Judge(rows, "a", 1, 0.1);
  EXPECT_EQ(findings[0].sustained_pct, 90);
  EXPECT_THAT(findings[0].disturbed_pct, ElementsAre(80));
}

TEST(Findings, ALoadIsNotSustainedWhereThoseBelowItLostMoreThanItAnsweredAgain) {
  const auto rows = Join({RowsAt(50, {"a"}, {Rounds(1)}), RowsAt(70, {"a"}, {Rounds(1, 80)}),
                          RowsAt(80, {"a"}, {Rounds(1, 96)}), RowsAt(90, {"a"}, {Rounds(1, 99)})});
  const auto findings = Judge(rows, "a", 1, 0.1);
  EXPECT_EQ(findings[0].sustained_pct, 50);
  EXPECT_THAT(findings[0].disturbed_pct, ElementsAre());
}

TEST(Findings, WhereLossBeginsIsComparedWithTheBaselineAndTheBest) {
  const auto rows = Join({RowsAt(80, {"a", "b", "c"}, {Rounds(1), Rounds(1), Rounds(1, 90)}),
                          RowsAt(96, {"a", "b", "c"}, {Rounds(1, 50), Rounds(1, 99), Rounds(1, 50)})});
  const auto findings = Judge(rows, "a", 1, 0.1);
  // After half of a slice requests are late by a tenth of it, so 96 % is 1.2 times what is worked off.
  // At 1.101 times that they are after 99 % of it.
  const double a = 96 / 1.2 * (1 + 0.1 / 0.99);
  EXPECT_NEAR(*findings[0].loses_from_pct, a, 1e-9);
  EXPECT_EQ(findings[0].sustained_pct, 80);
  EXPECT_DOUBLE_EQ(*findings[1].loses_from_pct, 96) << "it sustains all";
  EXPECT_NEAR(*findings[1].over_baseline, 96 / a, 1e-9);
  EXPECT_DOUBLE_EQ(*findings[1].over_best, 1);
  EXPECT_NEAR(*findings[0].over_best, a / 96, 1e-9);
  EXPECT_FALSE(findings[2].sustained_pct);
  EXPECT_FALSE(findings[2].loses_from_pct);
  EXPECT_FALSE(findings[2].over_baseline);
}

TEST(Findings, OneSlowSliceDecidesWhatIsSustainedButNotWhereLossBegins) {
  std::vector<Slice> one_slow = Rounds(1);
  one_slow[2].sample.latencies_ms.resize(50);
  const auto rows = Join(
      {RowsAt(60, {"a"}, {Rounds(1)}), RowsAt(80, {"a"}, {one_slow}), RowsAt(96, {"a"}, {Rounds(1, 98)})});
  EXPECT_EQ(rows[1].answered_pct, 90);
  EXPECT_EQ(rows[1].median_slice_answered_pct, 100);
  EXPECT_FALSE(AllLost(rows, 80, 1));
  const Finding finding = Judge(rows, "a", 1, 0.1)[0];
  EXPECT_EQ(finding.sustained_pct, 60);
  EXPECT_GT(finding.loses_from_pct, 95);
}

TEST(Findings, OfTwoThatBeginToLoseAtOneLevelTheOverloadThereTells) {
  // By what a answers at 96 % it would lose at 80 already: the machine was slow at 96, for both.
  const auto rows = Join({RowsAt(80, {"a", "b"}, {Rounds(1), Rounds(1)}),
                          RowsAt(96, {"a", "b"}, {Rounds(1, 20), Rounds(1, 40)})});
  const auto findings = Judge(rows, "a", 1, 0.1);
  EXPECT_EQ(findings[0].loses_from_pct, 80);
  EXPECT_EQ(findings[1].all_answered_pct, 80);
  EXPECT_EQ(findings[1].first_loss->load_pct, 96);
  EXPECT_NEAR(*findings[1].over_baseline, (1 + 0.1 / 0.2) / (1 + 0.1 / 0.4), 1e-9);
  EXPECT_DOUBLE_EQ(*findings[1].over_best, 1);
  EXPECT_NEAR(*findings[0].over_best, 1.25 / 1.5, 1e-9);
}

TEST(Findings, OfTwoThatLoseNowhereNoRatioIsKnown) {
  const auto rows = RowsAt(80, {"a", "b"}, {Rounds(1), Rounds(1)});
  EXPECT_FALSE(Judge(rows, "a", 1, 0.1)[1].over_baseline);
}

TEST(Findings, LossBeginsBetweenTheLoadThatIsSustainedAndTheNext) {
  const auto loses_from = [](double lost_pct, int answered) {
    const auto rows = Join({RowsAt(80, {"a"}, {Rounds(1)}), RowsAt(lost_pct, {"a"}, {Rounds(1, answered)})});
    return *Judge(rows, "a", 1, 0.1)[0].loses_from_pct;
  };
  EXPECT_EQ(loses_from(96, 10), 80) << "below, by what 96 % answers";
  EXPECT_EQ(loses_from(96, 0), 80);
  EXPECT_LT(loses_from(96, 98), 96);
  EXPECT_GT(loses_from(96, 98), 95.5);
  EXPECT_LT(loses_from(96, 60), loses_from(96, 70));
}

TEST(Findings, LevelsAreSortedByTheirVerdict) {
  const auto rows = Join(
      {RowsAt(40, {"a", "b"}, {Rounds(1), Rounds(1)}), RowsAt(60, {"a", "b"}, {Rounds(2), Rounds(1)}),
       RowsAt(80, {"a", "b"}, {Rounds(10), Rounds(11)}), RowsAt(90, {"a", "b"}, {Rounds(1), Rounds(2)})});
  const Finding finding = Judge(rows, "a", 1, 0.1)[1];
  EXPECT_THAT(finding.same_pct, ElementsAre(40));
  EXPECT_THAT(finding.better_pct, ElementsAre(60));
  EXPECT_THAT(finding.worse_pct, ElementsAre(80));
  EXPECT_THAT(finding.harmful_pct, ElementsAre(90));
}

TEST(Findings, AllLostMeansEveryPolicyAtThatLevel) {
  const auto rows = Join({RowsAt(80, {"a", "b"}, {Rounds(1, 90), Rounds(1)}),
                          RowsAt(90, {"a", "b"}, {Rounds(1, 90), Rounds(1, 98)})});
  EXPECT_FALSE(AllLost(rows, 80, 1));
  EXPECT_TRUE(AllLost(rows, 90, 1));
}

TEST(Accuracy, IsTheMedianRatioOverThePolicysPredictedLevels) {
  auto rows =
      Join({RowsAt(50, {"a", "b"}, {Rounds(6), Rounds(1)}), RowsAt(80, {"a", "b"}, {Rounds(4), Rounds(1)}),
            RowsAt(90, {"a", "b"}, {Rounds(9), Rounds(1)})});
  EXPECT_FALSE(AccuracyOf(rows, "a"));
  rows[0].predicted = Forecast{6, 2, 0};
  rows[2].predicted = Forecast{2, 2, 0};
  rows[4].predicted = Forecast{9, 9, 0};
  const auto accuracy = AccuracyOf(rows, "a");
  ASSERT_TRUE(accuracy);
  EXPECT_DOUBLE_EQ(accuracy->p50_ratio, 1);
  EXPECT_DOUBLE_EQ(accuracy->p99_ratio, 2);
  EXPECT_FALSE(AccuracyOf(rows, "b"));
}

}  // namespace
}  // namespace spillway::lab
