// SPDX-License-Identifier: Apache-2.0
// CPU time under a quota, against one that is stepped through, and stations that run on it.
#include "sim/cpu_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "sim/station.h"
#include "sim/sweep.h"

namespace spillway::sim {
namespace {

using namespace std::chrono_literals;

TEST(CpuWithQuota, FinishesAsOneSteppedThrough) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; round++) {
    const int64_t period = 5 + static_cast<int64_t>(random() % 20),
                  quota = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(period));
    CpuWithQuota cpu({Duration(quota), Duration(period)});
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

// Work that is stopped only at ticks, and debts that later periods pay.
TEST(CpuWithQuota, WithATickOverrunsAsOneSteppedThrough) {
  std::mt19937_64 random(8);
  int overruns = 0;
  for (int round = 0; round < 300; round++) {
    const int64_t period = 5 + static_cast<int64_t>(random() % 20),
                  quota = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(period)),
                  tick = 1 + static_cast<int64_t>(random() % 30);
    CpuWithQuota cpu({Duration(quota), Duration(period), Duration(tick)});
    int64_t now = 0, left = quota;
    const auto step = [&](bool runs) {  // to the next moment
      if (runs) left--;
      overruns += left < 0;
      if (++now % period == 0) left = std::min(quota, left + quota);
    };
    for (int i = 0; i < 30; i++) {
      const int64_t comes = now + static_cast<int64_t>(random() % 60) - 20;
      const bool woken = comes >= now;
      while (now < comes) step(false);
      const int64_t start = now, work = 1 + static_cast<int64_t>(random() % 40);
      bool stopped = false;
      int64_t done = 0;
      while (done < work) {
        if (now % tick == 0 || (woken && now == start)) stopped = left <= 0;
        if (stopped && left > 0) stopped = false;
        done += !stopped;
        step(!stopped);
      }
      int64_t given = work;
      ASSERT_EQ(cpu.Run(start, CpuWithQuota::kForever, woken, given), now) << "round " << round;
    }
  }
  EXPECT_GT(overruns, 1000);
}

TEST(CpuWithQuota, ADebtIsPaidBeforeAnythingElse) {
  // The tick is at 4 ms of each period of 5: who begins with it runs on till the next.
  CpuWithQuota cpu({1ms, 5ms, 4ms}, 0);
  EXPECT_EQ(cpu.Finish(0, 3'000'000), 3'000'000) << "2 ms more than its quota";
  EXPECT_EQ(cpu.Finish(5'000'000, 100'000), 15'100'000) << "two periods have paid for them";
}

TEST(CpuWithQuota, WorksOnlyUntilItIsTold) {
  CpuWithQuota cpu({2ms, 5ms});
  int64_t work = 3'000'000;
  EXPECT_EQ(cpu.Run(0, 1'000'000, true, work), 1'000'000);
  EXPECT_EQ(work, 2'000'000);
  EXPECT_EQ(cpu.Run(1'500'000, CpuWithQuota::kForever, true, work), 6'000'000);
  EXPECT_EQ(work, 0);
}

TEST(CpuWithQuota, ALoneRequestWaitsForAsManyPeriodsAsItNeeds) {
  EXPECT_EQ(MeanFinish({10ms, 10ms}, 7'000'000), 7'000'000) << "no quota at all";
  // 4 ms at 1 ms of each 5, begun x ms into a period: 16 - x ms when x < 4, else 16. The mean is 14.4.
  EXPECT_NEAR(static_cast<double>(MeanFinish({1ms, 5ms}, 4'000'000)), 14.4e6, 0.05e6);
}

UnitProfile WithQuota() {
  UnitProfile unit;
  unit.service = 2ms;
  unit.cpu_quota = {1ms, 5ms};
  return unit;
}

TEST(Station, WithAQuotaAnswersAtThatShareOfItsSpeed) {
  const UnitProfile limited = WithQuota();
  Station station(limited, 1, Duration(0));
  EXPECT_EQ(station.slot(), 10'000'000);
  Time last = 0;
  for (int i = 0; i < 100; i++) last = *station.Place(0, 1);
  EXPECT_EQ(last, 99 * 10'000'000 + 6'000'000) << "two quotas each; the last ends with its work";
  EXPECT_GT(station.unloaded(), 2'000'000);
}

// A worker that pauses, or stands still, begins in a later period than one that is given its work after it.
TEST(Station, WorkersThatAreHeldUpGetNoMoreThanTheQuotaOfEachPeriod) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; round++) {
    UnitProfile unit;
    unit.workers = static_cast<uint16_t>(2 + random() % 7);
    unit.service = 1ms;
    unit.cpu_quota = {2ms, 10ms};
    unit.interference.pause = {0.2, 25ms};
    if (round % 2 == 0) unit.interference.stall = {500ms, 100ms};
    Station station(unit, 1, Duration(0), random());
    std::vector<Time> answered;
    Time now = 0;
    for (int i = 0; i < 500; i++) {
      now += static_cast<Time>(random() % 6'000'000);  // more than they can do
      const auto latency = station.Place(now, 1);
      ASSERT_TRUE(latency);
      ASSERT_GE(*latency, 1'000'000);
      answered.push_back(now + *latency);
    }
    std::sort(answered.begin(), answered.end());
    for (size_t i = 0; i < answered.size(); i++) {
      const Time periods = answered[i] / 10'000'000 + 2;
      ASSERT_LE(static_cast<Time>(i) + 1, 2 * periods) << "round " << round << ", answer " << i;
    }
  }
}

TEST(Station, WorkersUnderOneQuotaAnswerNoMoreThanOneAlone) {
  UnitProfile several = WithQuota();
  several.workers = 4;
  Station station(several, 1, Duration(0));
  EXPECT_EQ(station.slot(), 10'000'000);
  Time last = 0;
  for (int i = 0; i < 100; i++) last = std::max(last, *station.Place(0, 1));
  EXPECT_NEAR(static_cast<double>(last), 996e6, 5e6);
  several.cpu_quota.quota = 10ms;  // two CPUs
  Station faster(several, 1, Duration(0));
  for (int i = 0; i < 100; i++) last = std::max<Time>(i == 0 ? 0 : last, *faster.Place(0, 1));
  EXPECT_NEAR(static_cast<double>(last), 100e6, 5e6);
}

TEST(Station, UnitsBeginTheirPeriodsAtTimesOfTheirOwn) {
  const UnitProfile limited = WithQuota();
  Station one(limited, 1, Duration(0), 1), same(limited, 1, Duration(0), 1),
      other(limited, 1, Duration(0), 2);
  const Time latency = *one.Place(0, 1);
  EXPECT_EQ(latency, *same.Place(0, 1));
  EXPECT_NE(latency, *other.Place(0, 1));
}

TEST(Sweep, JointCapacityOfUnitsWithQuotasIsTheirShare) {
  Scenario scenario;
  App app;
  app.name = "a";
  app.groups = {{1, {WithQuota()}}};
  scenario.apps = {app};
  scenario.arrivals = {{}};
  scenario.reports = {{"each", 1ms, 0ms, 0ms, 0, false}};
  scenario.axis.values = {50};
  scenario.policies = {{}};
  scenario.requests = 10;
  scenario.warm_up = 0;
  EXPECT_DOUBLE_EQ(RunSweep(scenario, 1, {}, {}).rows.at(0).rate_rps, 50);
}

TEST(CpuWithQuota, AccountsForWhatIsDoneByThen) {
  CpuWithQuota cpu({2ms, 5ms}, 1'000'000);
  EXPECT_EQ(cpu.UsedBy(0), 0);
  int64_t first = 3'000'000, second = 500'000;
  ASSERT_EQ(cpu.Run(2'000'000, CpuWithQuota::kForever, true, first), 7'000'000);  // 2 ms, and 1 from 6 ms on
  ASSERT_EQ(cpu.Run(7'500'000, CpuWithQuota::kForever, true, second), 8'000'000);
  EXPECT_EQ(cpu.UsedBy(2'000'000), 0);
  EXPECT_EQ(cpu.UsedBy(3'000'000), 1'000'000);
  EXPECT_EQ(cpu.UsedBy(5'000'000), 2'000'000);
  EXPECT_EQ(cpu.PeriodsBy(5'999'999), cpu.PeriodsBy(1'000'000));
  EXPECT_EQ(cpu.PeriodsBy(6'000'000), cpu.PeriodsBy(5'999'999) + 1);
  EXPECT_EQ(cpu.UsedBy(7'750'000), 3'250'000);
  EXPECT_EQ(cpu.UsedBy(20'000'000), 3'500'000);
}

}  // namespace
}  // namespace spillway::sim
