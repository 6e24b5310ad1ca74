// SPDX-License-Identifier: Apache-2.0
// What stands in the way, and by how much.
#include "planner/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/search_report.h"
#include "text.h"

namespace spillway::planner {
namespace {

TEST(Diagnosis, AnImpossibleSlowdownIsNamedWithTheBestThereIs) {
  PlanInput input = Parse(With(kWorkload, "slowdown: 1.5", "slowdown: 0.05"));
  const ClusterModel model(input);
  ASSERT_FALSE(Search(model, {}).best);
  const auto obstacles = FindObstacles(model, Objective::kCost);
  ASSERT_EQ(obstacles.size(), 1u);
  EXPECT_EQ(obstacles[0].limit, Limit::kSlowdown);
  // 16 servers and 16 SmartNICs: work 4.7 x 2 of 4.7 x 16 + 16, network 200 of 3200.
  const double fastest = 0.4 * 9.4 / (75.2 + 16) + 0.6 * 200 / 3200;
  EXPECT_NEAR(obstacles[0].check.value, fastest, 1e-9);
  EXPECT_NEAR(obstacles[0].factor, fastest / 0.05, 1e-6);
}

TEST(Diagnosis, AMemoryThatNoNodeHasIsNamedWithWhatIsNeeded) {
  PlanInput input = Parse(kWorkload);
  input.workload.memory.runtime_gb = 1000;
  const ClusterModel model(input);
  const auto obstacles = FindObstacles(model, Objective::kCost);
  ASSERT_EQ(obstacles.size(), 1u);
  EXPECT_EQ(obstacles[0].limit, Limit::kMemory);
  EXPECT_NEAR(obstacles[0].factor, 1000.0 / 896, 1e-9) << "Milan has most";
  EXPECT_THAT(Spell(obstacles[0].check),
              testing::HasSubstr("1000 GB where at most 896 GB is allowed, 11.6 % over"));
}

TEST(Diagnosis, TwoImpossibleLimitsAreToldTogether) {
  PlanInput input = Parse(kWorkload);
  input.workload.memory.runtime_gb = 1000;
  input.workload.limits.slowdown = 0.05;
  const ClusterModel model(input);
  EXPECT_TRUE(FindObstacles(model, Objective::kCost).empty());
  const auto conflict = FindConflict(model, Objective::kCost);
  ASSERT_TRUE(conflict);
  EXPECT_GT(conflict->factor, 1);
  EXPECT_EQ(conflict->broken.size(), 2u);
}

TEST(Diagnosis, TheBindingLimitIsTheOneThatSavesWhenItGivesWay) {
  // 3 SmartNICs take 1.653.
  const PlanInput input = Parse(With(kWorkload, "slowdown: 1.5", "slowdown: 1.6"));
  const ClusterModel model(input);
  const Answer answer = Search(model, {});
  ASSERT_TRUE(answer.best);
  const auto binding = FindBinding(model, Objective::kCost, *answer.best);
  ASSERT_FALSE(binding.empty());
  EXPECT_EQ(binding[0].limit, Limit::kSlowdown);
  EXPECT_GT(binding[0].saving, 0);
  EXPECT_LT(binding[0].saving, 1);
}

TEST(Diagnosis, NothingBindsWhereTheSmallestMixWillDo) {
  const PlanInput input = Parse(With(kWorkload, "slowdown: 1.5", "slowdown: 1000"));
  const ClusterModel model(input);
  const Answer answer = Search(model, {});
  ASSERT_TRUE(answer.best);
  EXPECT_TRUE(FindBinding(model, Objective::kCost, *answer.best).empty());
}

}  // namespace
}  // namespace spillway::planner
