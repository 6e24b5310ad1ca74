// SPDX-License-Identifier: Apache-2.0
// A plan in the simulator.
#include "planner/check/rehearsal.h"

#include <gtest/gtest.h>

#include "planner/compare.h"
#include "text.h"

namespace spillway::planner {
namespace {

TEST(PlanScenario, NodesBecomeServersThatTogetherAnswerWhatThePlanSays) {
  const PlanInput input = Example("bigquery");
  const ClusterModel model(input);
  const ServingUnits before = UnitsOf(model, input.workload.baseline, "baseline");
  // 12 nodes of 224 workers, 200 ms each.
  EXPECT_NEAR(before.capacity_rps, 12 * 224 / 0.2, 1e-6);
  ASSERT_EQ(before.app.groups.size(), 1u);
  EXPECT_EQ(before.app.groups[0].count, 12u);
  EXPECT_EQ(before.app.groups[0].units[0].workers, 224u);
  EXPECT_EQ(before.app.groups[0].units[0].service, std::chrono::milliseconds(200));
  EXPECT_EQ(before.app.groups[0].units[0].kind, SPW_KIND_CPU);

  const Mix nics = ReplaceServers(input.workload, 2);
  const ServingUnits after = UnitsOf(model, nics, "plan");
  EXPECT_EQ(after.app.groups[0].count, 24u);
  EXPECT_EQ(after.app.groups[0].units[0].kind, SPW_KIND_SMARTNIC);
  EXPECT_NEAR(before.capacity_rps / after.capacity_rps, model.Evaluate(nics).slowdown, 1e-9);
}

TEST(PlanScenario, AcceleratorsServeWhereThereAreSome) {
  const PlanInput input = Example("llm-training");
  const ServingUnits units = UnitsOf(ClusterModel(input), input.workload.baseline, "baseline");
  ASSERT_EQ(units.app.groups.size(), 1u) << "storage nodes serve no requests";
  EXPECT_EQ(units.app.groups[0].units[0].kind, SPW_KIND_GPU);
  EXPECT_EQ(units.app.groups[0].units[0].workers, 4u);
}

TEST(PlanScenario, OfTwoTypesEachTakesItsOwnTime) {
  const PlanInput input = Parse(kWorkload);
  const ClusterModel model(input);
  const size_t milan = input.workload.baseline.groups[0].node, nic = input.workload.compare_node;
  const Mix mix{{{NodeKind::kLiteCompute, milan, 1, 0, 0}, {NodeKind::kLiteCompute, nic, 2, 0, 0}}, {100, 1}};
  const ServingUnits units = UnitsOf(model, mix, "plan");
  ASSERT_EQ(units.app.groups.size(), 2u);
  const double baseline_rps = UnitsOf(model, input.workload.baseline, "baseline").capacity_rps;
  EXPECT_NEAR(units.app.groups[0].units[0].capacity, baseline_rps / 2, 1e-6) << "one of the two servers";
  // 0.4 x 4.7 + 0.6 of a server's time.
  EXPECT_NEAR(units.app.groups[1].units[0].capacity, baseline_rps / 2 / 2.48, 1e-6);
  EXPECT_LT(units.capacity_rps, baseline_rps / model.Evaluate(mix).slowdown)
      << "the plan pools cores and network";
}

TEST(PooledLatency, IsErlangs) {
  EXPECT_NEAR(PooledLatencyMs(1, 10, 0.5, 1), 20, 1e-9) << "M/M/1: service / (1 - use)";
  EXPECT_NEAR(PooledLatencyMs(1, 10, 0.5, 0), 15, 1e-9) << "M/D/1: half the wait";
  // M/M/2 at 0.5: service / (1 - use^2).
  EXPECT_NEAR(PooledLatencyMs(2, 10, 0.5, 1), 10 / 0.75, 1e-9);
}

TEST(Rehearsal, AHomogeneousPlanIsAsSlowInTheSimulatorAsItSays) {
  const PlanInput input = Parse(kWorkload + "  requests: {service_ms: 50, load: 0.7, cv: 0.5}\n");
  const ClusterModel model(input);
  const Mix mix = ReplaceServers(input.workload, 2);
  size_t last = 0, whole = 0;
  const Rehearsal rehearsal =
      Rehearse(model, mix, 20'000, 1, [&](size_t done, size_t total, const std::string&) {
        last = done;
        whole = total;
      });
  EXPECT_EQ(last, whole);
  ASSERT_EQ(rehearsal.rows.size(), 4u);
  ASSERT_EQ(rehearsal.simulated_slowdown.size(), 2u);
  for (const auto& [policy, slowdown] : rehearsal.simulated_slowdown)
    EXPECT_NEAR(slowdown / rehearsal.planned_slowdown, 1, 0.05) << policy;
  for (const Rehearsed& row : rehearsal.rows) {
    EXPECT_NEAR(row.simulated_rps / row.planned_rps, 1, 0.05) << row.cluster << " " << row.policy;
    EXPECT_NEAR(row.simulated_utilisation, row.planned_utilisation, 0.05);
    EXPECT_GE(row.simulated_mean_ms, 0.95 * row.planned_mean_ms) << "no balancer beats one queue for all";
    EXPECT_LT(row.lost, 0.01);
  }
}

TEST(Rehearsal, StopsWhenTold) {
  const PlanInput input = Parse(kWorkload);
  const ClusterModel model(input);
  EXPECT_TRUE(Rehearse(model, input.workload.baseline, 1000, 1, {}, [] { return true; }).interrupted);
}

}  // namespace
}  // namespace spillway::planner
