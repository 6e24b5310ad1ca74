// SPDX-License-Identifier: Apache-2.0
// Servers against SmartNICs: the model must give what the closed forms give.
#include "planner/compare.h"

#include <gtest/gtest.h>

#include "text.h"

namespace spillway::planner {
namespace {

TEST(Compare, BigQueryIsLovelocksSection52) {
  const PlanInput input = Example("bigquery");
  const auto all = Compare(ClusterModel(input), 8);
  ASSERT_EQ(all.size(), 8u);
  // c_s = 7, p_s = 11.2, c_f = 0.7; mu = (4.7 x 0.39 + 0.61) / phi.
  EXPECT_NEAR(all[1].slowdown, 2.443 / 2, 1e-9);
  EXPECT_NEAR(all[2].slowdown, 2.443 / 3, 1e-9);
  for (const Comparison& one : all) {
    const RelativePrices p{.server_cost = 7, .server_power = 11.2, .fabric_cost = 0.7};
    EXPECT_NEAR(one.cost, CostRatio(p, one.phi), 1e-9) << one.phi;
    EXPECT_NEAR(one.cost_with_fabric, CostRatioWithFabric(p, one.phi), 1e-9) << one.phi;
    EXPECT_NEAR(one.cost_with_right_sized_fabric, CostRatioWithRightSizedFabric(p, one.phi, one.slowdown),
                1e-9);
    EXPECT_NEAR(one.energy, EnergyRatio(p, one.phi, one.slowdown), 1e-9) << one.phi;
  }
}

TEST(Compare, TrainingKeepsItsDevices) {
  const PlanInput input = Example("llm-training");
  const auto all = Compare(ClusterModel(input), 4);
  EXPECT_NEAR(all[0].slowdown, 1, 1e-9) << "phi 1 sustains training (Lovelock 5.3)";
  EXPECT_TRUE(all[0].broken.empty()) << "streamed checkpoints fit";
  // Gradients: 15 accelerator nodes further instead of 7, over twice the network; storage nodes twice as
  // fast, the same 8 drives of 48 Gb/s.
  EXPECT_NEAR(all[1].slowdown, 0.78 + 0.2 * (15.0 / 7) / 2 + 0.02 * 200 / 384, 1e-9);
  for (const Comparison& one : all)
    for (size_t g = 0; g < one.mix.groups.size(); g++)
      EXPECT_EQ(one.mix.groups[g].devices, input.workload.baseline.groups[g].devices);
}

TEST(Compare, TellsWhichLimitsSmartNicsBreak) {
  PlanInput input = Example("llm-training");
  input.workload.checkpoint.streaming = false;
  // 2 + 4.7 + 2 x 4.55 x 4 = 43.1 GB of 48.
  input.workload.limits.memory_share = 0.8;
  const auto all = Compare(ClusterModel(input), 2);
  ASSERT_EQ(all[0].broken.size(), 1u);
  EXPECT_EQ(all[0].broken[0].limit, Limit::kMemory);
  EXPECT_NEAR(all[0].broken[0].value, 43.1, 1e-9);
  EXPECT_TRUE(all[1].broken.empty()) << "two accelerators each";
}

TEST(Compare, ASlowdownOverTheLimitIsBroken) {
  PlanInput input = Example("bigquery");  // slowdown 2.443 / phi
  input.workload.limits.slowdown = 1.0;
  const auto all = Compare(ClusterModel(input), 3);
  ASSERT_EQ(all[1].broken.size(), 1u);
  EXPECT_EQ(all[1].broken[0].limit, Limit::kSlowdown);
  EXPECT_TRUE(all[2].broken.empty());
}

}  // namespace
}  // namespace spillway::planner
