// SPDX-License-Identifier: Apache-2.0
#include "sim/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rows.h"

namespace spillway::sim {
namespace {

const Row& At(const SweepResult& sweep, const std::string& app, double axis, const std::string& policy) {
  for (const Row& row : sweep.rows)
    if (row.app == app && row.axis == axis && row.policy == policy) return row;
  throw std::logic_error("no such row");
}

Row& At(SweepResult& sweep, const std::string& app, double axis, const std::string& policy) {
  return const_cast<Row&>(At(std::as_const(sweep), app, axis, policy));
}

TEST(Findings, RegretIsOverTheBestPolicyThatDoesNotLose) {
  const SweepResult sweep = DemoSweep();
  const Findings findings = Judge(Demo(), sweep.rows);
  ASSERT_EQ(findings.verdicts.size(), 1u);
  const Verdict& v = findings.verdicts[0];
  EXPECT_EQ(v.policy, "headroom");
  ASSERT_EQ(v.regrets.size(), 3u);
  EXPECT_DOUBLE_EQ(v.regrets[0].ratio, 0.9);
  const Comparison* worst = Verdict::Worst(v.regrets);
  ASSERT_NE(worst, nullptr);
  EXPECT_DOUBLE_EQ(worst->ratio, 8.4 / 7) << "host-only has less, but loses a fifth";
  EXPECT_EQ(worst->other->policy, "wrr");
  EXPECT_EQ(worst->own, &At(sweep, "dns", 80, "headroom"));
  EXPECT_DOUBLE_EQ(Verdict::Worst(v.regrets, "knn")->ratio, 1);
  EXPECT_EQ(Verdict::Worst(v.regrets, "vgg16"), nullptr);
}

TEST(Findings, TheBoundIsNoRival) {
  SweepResult sweep = DemoSweep();
  At(sweep, "dns", 50, "bound").result.p99_ms = 1;
  const Findings findings = Judge(Demo(), sweep.rows);
  const Verdict& v = findings.verdicts[0];
  EXPECT_DOUBLE_EQ(v.regrets[0].ratio, 0.9);
  EXPECT_DOUBLE_EQ(Verdict::Worst(v.over_bound)->ratio, 4.5);
}

TEST(Findings, ShareWithinATenthOfTheBound) {
  const SweepResult sweep = DemoSweep();
  const Verdict v = Judge(Demo(), sweep.rows).verdicts[0];
  ASSERT_EQ(v.over_bound.size(), 4u);  // 1.02, 1.4, 1.02, 1.05
  EXPECT_DOUBLE_EQ(v.NearBound(), 0.75);
}

TEST(Findings, RegretIsToldByItsMedianAndItsTail) {
  const SweepResult sweep = DemoSweep();
  const Findings findings = Judge(Demo(), sweep.rows);
  const Verdict& v = findings.verdicts[0];
  EXPECT_DOUBLE_EQ(v.Regret(50), 1);
  EXPECT_DOUBLE_EQ(v.Regret(95), 1.2);
  const auto worst = v.WorstRegrets(2);
  ASSERT_EQ(worst.size(), 2u);
  EXPECT_DOUBLE_EQ(worst[0].ratio, 1.2);
  EXPECT_DOUBLE_EQ(worst[1].ratio, 1);
  EXPECT_EQ(v.WorstRegrets(10).size(), 3u);
}

TEST(Findings, APolicyOfWhichTheBestTryIsTakenIsNoRival) {
  Scenario scenario = Demo();
  scenario.policies[1].unit_policy = SPW_UNIT_P4MITE;
  scenario.policies[1].trigger.tries = {1, 2};
  const SweepResult sweep = DemoSweep();
  const Findings findings = Judge(scenario, sweep.rows);
  ASSERT_FALSE(findings.verdicts[0].regrets.empty());
  for (const Comparison& one : findings.verdicts[0].regrets) EXPECT_EQ(one.other->policy, "host-only");
}

TEST(Findings, PointsWhereEveryPolicyLosesAreLeftOut) {
  SweepResult sweep = DemoSweep();
  At(sweep, "knn", 80, "headroom").result.loss = 0.5;
  const Findings findings = Judge(Demo(), sweep.rows);
  const Verdict& v = findings.verdicts[0];
  EXPECT_THAT(v.left_out, testing::ElementsAre(&At(sweep, "knn", 80, "headroom")));
  EXPECT_TRUE(v.alone.empty());
  EXPECT_EQ(v.regrets.size(), 3u);
}

TEST(Findings, LosingIsNoWayOutOfTheComparison) {
  SweepResult sweep = DemoSweep();
  At(sweep, "dns", 50, "headroom").result.loss = 0.02;
  const Findings findings = Judge(Demo(), sweep.rows);
  const Verdict& v = findings.verdicts[0];
  EXPECT_THAT(v.lost_alone, testing::ElementsAre(&At(sweep, "dns", 50, "headroom")));
  EXPECT_THAT(v.alone, testing::ElementsAre(&At(sweep, "knn", 80, "headroom")));
  EXPECT_EQ(v.regrets.size(), 3u);
  EXPECT_EQ(v.over_bound.size(), 3u);
}

TEST(Findings, EveryHeadroomPolicyIsJudgedAndNoneIsARival) {
  Scenario scenario = Demo();
  scenario.policies[1].unit_policy = SPW_UNIT_HEADROOM;  // wrr's rows, say with p2c
  const SweepResult sweep = DemoSweep();
  const Findings findings = Judge(scenario, sweep.rows);
  ASSERT_EQ(findings.verdicts.size(), 2u);
  EXPECT_EQ(findings.verdicts[1].policy, "wrr");
  EXPECT_DOUBLE_EQ(findings.verdicts[0].regrets[0].ratio, 4.5 / 6) << "host-only is the only rival left";
}

TEST(Findings, LoadIsSustainedUpToTheFirstLoss) {
  Scenario scenario = Demo();
  scenario.axis.values = {50, 80, 90};
  SweepResult sweep = DemoSweep();
  sweep.rows.insert(sweep.rows.begin(), MakeRow("dns", 90, "host-only", 5));  // rows may come in any order
  sweep.rows.push_back(MakeRow("dns", 90, "headroom", 5, 0.01));
  At(sweep, "dns", 50, "wrr").result.loss = 0.0101;
  const Findings findings = Judge(scenario, sweep.rows);
  const auto sustained = [&](const std::string& app, const std::string& policy) -> std::optional<double> {
    for (const Endurance& one : findings.endurance)
      if (one.app == app && one.policy == policy) return one.sustained;
    return -1;
  };
  EXPECT_EQ(sustained("dns", "headroom"), 90) << "a hundredth is tolerated";
  EXPECT_EQ(sustained("dns", "host-only"), 50) << "90 % held, but 80 % did not";
  EXPECT_EQ(sustained("dns", "wrr"), std::nullopt);
  EXPECT_EQ(findings.endurance.size(), 8u);
}

TEST(Findings, AnInterruptedSweepIsJudgedByWhatThereIs) {
  SweepResult sweep = DemoSweep();
  sweep.rows.resize(6);
  const Findings findings = Judge(Demo(), sweep.rows);
  EXPECT_EQ(findings.endurance.size(), 4u) << "knn was not reached";
  EXPECT_EQ(findings.verdicts[0].regrets.size(), 2u);
  EXPECT_EQ(findings.verdicts[0].over_bound.size(), 1u);
  EXPECT_TRUE(Judge(Demo(), {}).endurance.empty());
}

}  // namespace
}  // namespace spillway::sim
