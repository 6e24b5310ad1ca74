// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "sim/findings.h"
#include "sim/scenario/scenario_reader.h"
#include "sim/sweep.h"

namespace spillway::sim {
namespace {

// One or two apps of each group of real-units.yaml, with few requests, so that p99 is noisy: the bounds are
// wider than the whole file's (docs/sim.md).
TEST(SimExamples, HeadroomIsNearTheBestPolicyOnRealUnits) {
  constexpr double kMedian = 1.05, kWorst = 2.0;
  constexpr std::array<std::string_view, 12> kApps = {
      "throttled.thr-dns-tick4", "throttled.thr-k8s-100ms", "throttled.thr-onoff",
      "ratio.one-ratio5",        "workers.w4-3units",       "spread.exp",
      "spread.bimodal5x10",      "stall.stall-host",        "burst.onoff-short",
      "change.jump-1w",          "reports.rep20-w4",        "fig5.fig5-dns-pois"};
  auto scenario = LoadScenario(SPILLWAY_EXAMPLES "/sim/real-units.yaml");
  ASSERT_TRUE(scenario) << scenario.error().message;
  std::erase_if(scenario->apps, [&](const App& app) {
    return std::find(kApps.begin(), kApps.end(), app.name) == kApps.end();
  });
  ASSERT_EQ(scenario->apps.size(), kApps.size());
  for (App& app : scenario->apps) app.own.requests.reset(), app.own.warm_up.reset();
  Resize(*scenario, 10'000);

  const SweepResult sweep = RunSweep(*scenario, 0, nullptr, nullptr);
  const Findings findings = Judge(*scenario, sweep.rows);
  ASSERT_EQ(findings.verdicts.size(), 1u);
  const Verdict& verdict = findings.verdicts.front();
  EXPECT_GE(verdict.regrets.size(), 60u);
  EXPECT_LE(verdict.Regret(50), kMedian);
  const Comparison* worst = Verdict::Worst(verdict.regrets);
  EXPECT_LE(worst->ratio, kWorst) << worst->own->app << " at " << worst->own->axis << " %, best "
                                  << worst->other->policy;
  EXPECT_TRUE(verdict.lost_alone.empty()) << verdict.lost_alone.front()->app;
}

}  // namespace
}  // namespace spillway::sim
