// SPDX-License-Identifier: Apache-2.0
// Rationed CPU time, against one that is stepped through, and a station that runs on it.
#include "sim/ration.h"

#include <gtest/gtest.h>

#include <random>

#include "sim/station.h"
#include "sim/sweep.h"

namespace spillway::sim {
namespace {

using namespace std::chrono_literals;

TEST(RationedCpu, FinishesAsOneSteppedThrough) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; round++) {
    const int64_t period = 5 + static_cast<int64_t>(random() % 20),
                  quota = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(period));
    RationedCpu cpu({Duration(quota), Duration(period)});
    int64_t now = 0, period_seen = -1, used = 0;
    for (int i = 0; i < 30; i++) {
      now += static_cast<int64_t>(random() % 30);
      const int64_t start = now, work = 1 + static_cast<int64_t>(random() % 40);
      for (int64_t left = work; left > 0; now++) {
        if (now / period != period_seen) period_seen = now / period, used = 0;
        if (used < quota) used++, left--;
      }
      ASSERT_EQ(cpu.Finish(start, work), now) << "round " << round;
    }
  }
}

TEST(RationedCpu, ALoneRequestWaitsForAsManyPeriodsAsItNeeds) {
  EXPECT_EQ(MeanFinish({10ms, 10ms}, 7'000'000), 7'000'000) << "no ration at all";
  // 4 ms at 1 ms of each 5, begun x ms into a period: 16 - x ms when x < 4, else 16. The mean is 14.4.
  EXPECT_NEAR(static_cast<double>(MeanFinish({1ms, 5ms}, 4'000'000)), 14.4e6, 0.05e6);
}

UnitProfile Rationed() {
  UnitProfile unit;
  unit.service = 2ms;
  unit.ration = {1ms, 5ms};
  return unit;
}

TEST(Station, WithARationAnswersAtThatShareOfItsSpeed) {
  const UnitProfile rationed = Rationed();
  Station station(rationed, 1, Duration(0));
  EXPECT_EQ(station.slot(), 10'000'000);
  Time last = 0;
  for (int i = 0; i < 100; i++) last = *station.Place(0, 1);
  EXPECT_EQ(last, 99 * 10'000'000 + 6'000'000) << "two quotas each; the last ends with its work";
  EXPECT_GT(station.unloaded(), 2'000'000);
}

TEST(Sweep, JointCapacityOfRationedUnitsIsTheirShare) {
  Scenario scenario;
  App app;
  app.name = "a";
  app.groups = {{1, {Rationed()}}};
  scenario.apps = {app};
  scenario.arrivals = {{}};
  scenario.reports = {{"each", 1ms, 0ms, 0ms, 0, false}};
  scenario.axis.values = {50};
  scenario.policies = {{}};
  scenario.requests = 10;
  scenario.warm_up = 0;
  EXPECT_DOUBLE_EQ(RunSweep(scenario, 1, {}, {}).rows.at(0).rate_rps, 50);
}

}  // namespace
}  // namespace spillway::sim
