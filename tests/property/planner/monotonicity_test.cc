// SPDX-License-Identifier: Apache-2.0
// What must hold whatever the figures: more of something never slows down, baselines are their own measure.
#include <gtest/gtest.h>

#include "planner/cluster_model.h"
#include "planner/execution_time.h"
#include "planner/price_ratio.h"
#include "random_input.h"

namespace spillway::planner {
namespace {

constexpr double kTolerance = 1e-9;
constexpr Kinds kKinds[] = {
    {false, false, true}, {true, false, false}, {true, true, false}, {true, true, true}};

TEST(ClusterProperty, TheBaselineTakesItsOwnTime) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; i++) {
    const PlanInput input = RandomInput(random, kKinds[i % 4], true);
    EXPECT_NEAR(ClusterModel(input).Evaluate(input.workload.baseline).slowdown, 1, kTolerance);
  }
}

TEST(ClusterProperty, MoreNodesCostMoreAndAreNoSlower) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; i++) {
    PlanInput input = RandomInput(random, kKinds[i % 4], true);
    input.workload.all_reduce = 0;  // whose traffic grows with nodes
    const ClusterModel model(input);
    Mix mix = input.workload.baseline;
    Evaluation before = model.Evaluate(mix);
    for (int n = 3; n < 8; n++) {
      for (Group& group : mix.groups) {
        group.devices = group.devices > 0 ? group.devices / group.nodes * n : 0;
        group.nodes = n;
      }
      const Evaluation now = model.Evaluate(mix);
      EXPECT_GT(now.CostUsd(), before.CostUsd());
      EXPECT_GT(now.PowerW(), before.PowerW());
      EXPECT_LE(now.slowdown, before.slowdown * (1 + kTolerance));
      before = now;
    }
  }
}

TEST(ClusterProperty, AFasterFabricIsNoSlowerAndAnOversubscribedOneNoFaster) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; i++) {
    const PlanInput input = RandomInput(random, kKinds[i % 4], true);
    const ClusterModel model(input);
    Mix mix = input.workload.baseline;
    const double before = model.Evaluate(mix).slowdown;
    mix.fabric = {200, 1};
    EXPECT_LE(model.Evaluate(mix).slowdown, before * (1 + kTolerance));
    mix.fabric = {100, 3};
    EXPECT_GE(model.Evaluate(mix).slowdown, before * (1 - kTolerance));
  }
}

TEST(ClosedFormProperty, SavingsFallWithPhiAndRiseWithPrices) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> price(0.1, 50), slower(0.3, 3);
  for (int i = 0; i < 1000; i++) {
    RelativePrices p{price(random), price(random), price(random), price(random), price(random)};
    const double mu = slower(random);
    for (double phi = 1; phi < 8; phi++) {
      EXPECT_GT(CostRatio(p, phi), CostRatio(p, phi + 1));
      EXPECT_GT(CostRatioWithFabric(p, phi), CostRatioWithFabric(p, phi + 1));
      EXPECT_GT(EnergyRatio(p, phi, mu), EnergyRatio(p, phi + 1, mu));
      EXPECT_GT(EnergyRatio(p, phi, mu), EnergyRatio(p, phi, mu * 1.1));
    }
    RelativePrices dearer = p;
    dearer.server_cost *= 1.1;
    EXPECT_GT(CostRatio(dearer, 2), CostRatio(p, 2));
    RelativePrices free_fabric = p;
    free_fabric.fabric_cost = 0;
    EXPECT_DOUBLE_EQ(CostRatioWithFabric(free_fabric, 3), CostRatio(p, 3));
  }
}

TEST(ClosedFormProperty, TheShareBehindASlowdownGivesItBack) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> share(0, 1), phi(1, 8), slower(1.5, 10);
  for (int i = 0; i < 1000; i++) {
    const double s = share(random), f = phi(random), x = slower(random);
    EXPECT_NEAR(CpuShareBehind(SlowdownAt(s, f, x), f, x), s, 1e-9);
  }
}

}  // namespace
}  // namespace spillway::planner
