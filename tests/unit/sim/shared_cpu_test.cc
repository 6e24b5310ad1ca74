// SPDX-License-Identifier: Apache-2.0
// Units that work on the same CPUs: where each finds room, and what that does to their answers.
#include "sim/cpu_time.h"

#include <gtest/gtest.h>

#include "sim/run.h"
#include "sim/station.h"
#include "terms.h"

namespace spillway::sim {
namespace {

using namespace std::chrono_literals;

UnitProfile Unit(Duration service) {
  UnitProfile unit;
  unit.service = service;
  unit.shares_cpus = true;
  return unit;
}

TEST(SharedCpus, AGapIsWhatOthersLeave) {
  SharedCpus cpus(1);
  cpus.Take(0, 10, 20);
  cpus.Take(0, 30, 40);
  EXPECT_EQ(cpus.FirstGap(5).begin, 5);
  EXPECT_EQ(cpus.FirstGap(5).end, 10);
  EXPECT_EQ(cpus.FirstGap(12).begin, 20);
  EXPECT_EQ(cpus.FirstGap(12).end, 30);
  EXPECT_EQ(cpus.FirstGap(35).begin, 40);
  cpus.Take(0, 20, 30);  // now there is no gap between the two
  EXPECT_EQ(cpus.FirstGap(10).begin, 40);
  cpus.Forget(40);
  EXPECT_EQ(cpus.FirstGap(41).begin, 41);
}

TEST(SharedCpus, OfSeveralTheOneThatIsFreeFirst) {
  SharedCpus cpus(2);
  cpus.Take(0, 0, 10);
  EXPECT_EQ(cpus.FirstGap(0).cpu, 1u);
  EXPECT_EQ(cpus.FirstGap(0).begin, 0);
  cpus.Take(1, 0, 5);
  EXPECT_EQ(cpus.FirstGap(0).begin, 5);
  EXPECT_EQ(cpus.FirstGap(0).cpu, 1u);
}

TEST(Station, OnASharedCpuWaitsForTheOther) {
  SharedCpus cpus(1);
  const UnitProfile slow = Unit(4ms), quick = Unit(1ms);
  Station first(slow, 1, 0ns, 1, &cpus), second(quick, 1, 0ns, 2, &cpus);
  EXPECT_EQ(first.Place(0, 1), 4 * kMs);
  EXPECT_EQ(second.Place(1 * kMs, 1), 4 * kMs) << "3 ms of waiting for the CPU";
  EXPECT_EQ(second.Place(10 * kMs, 1), 1 * kMs) << "which is idle again";
}

TEST(Station, UnderAQuotaWaitingForTheCpuUsesNoneOfIt) {
  SharedCpus cpus(1);
  UnitProfile limited = Unit(2ms);
  limited.cpu_quota = {2ms, 100ms, 0ns};
  const UnitProfile other = Unit(5ms);
  Station first(other, 1, 0ns, 1, &cpus), second(limited, 1, 0ns, std::nullopt, &cpus);
  EXPECT_EQ(first.Place(0, 1), 5 * kMs);
  EXPECT_EQ(second.Place(0, 1), 7 * kMs);
  EXPECT_EQ(second.Place(20 * kMs, 1), 82 * kMs) << "in the next period, as this one's 2 ms are used up";
}

TEST(Station, ARegularNeighbourHalvesTheSpeedAndUsesUpTheQuota) {
  UnitProfile unit = Unit(1ms);
  unit.interference.neighbour = {.every = 10s, .length = 10s, .slowdown = 2, .regular = true};
  Station alone(unit, 1, 0ns, 1);
  EXPECT_EQ(alone.Place(0, 1), 2 * kMs);
  unit.cpu_quota = {4ms, 100ms, 0ns};
  Station limited(unit, 1, 0ns, std::nullopt);
  EXPECT_EQ(limited.Place(0, 1), 2 * kMs);
  EXPECT_EQ(limited.Place(10 * kMs, 1), 92 * kMs) << "the neighbour had the other 2 ms by 4 ms";
  EXPECT_EQ(limited.Place(200 * kMs, 1), 2 * kMs);
}

TEST(Run, UnitsThatShareACpuAnswerLaterThanUnitsWithCpusOfTheirOwn) {
  App app;
  app.groups = {{2, {Unit(2ms)}}};
  const Arrivals arrivals{ArrivalKind::kPoisson, "poisson", {}};
  const Reports reports;
  PolicyChoice policy;
  policy.unit_policy = SPW_UNIT_WRR;
  RunSetup setup;
  setup.app = &app;
  setup.arrivals = &arrivals;
  setup.reports = &reports;
  setup.policy = &policy;
  setup.rate_rps = 400;
  setup.requests = 5000;
  const double apart = sim::Run(setup).p99_ms;
  app.shared_cpus = 1;
  const double shared = sim::Run(setup).p99_ms;
  EXPECT_GT(shared, 1.5 * apart) << "80 % of one CPU against 40 % of each of two";
  app.groups[0].units[0].shares_cpus = false;
  EXPECT_EQ(sim::Run(setup).p99_ms, apart);
}

TEST(Run, FlowsInTurnSpreadEvenlyAndARestLetsQueuesEmpty) {
  App app;
  app.groups = {{1, {Unit(2ms)}}};
  app.cv = 0;
  const Arrivals constant{ArrivalKind::kConstant, "constant", {}};
  const Reports reports;
  PolicyChoice policy;
  policy.unit_policy = SPW_UNIT_WRR;
  RunSetup setup;
  setup.app = &app;
  setup.arrivals = &constant;
  setup.reports = &reports;
  setup.policy = &policy;
  setup.rate_rps = 1000;  // twice what it can do
  setup.requests = setup.warm_up = 100;
  const double queue_kept = sim::Run(setup).p50_ms;
  setup.rest = 1s;
  const double rested = sim::Run(setup).p50_ms;
  EXPECT_NEAR(queue_kept - rested, 100, 5) << "100 requests of warm-up leave 100 ms of work";

  app.groups = {{8, {Unit(2ms)}}};
  setup.rate_rps = 2000;
  setup.requests = 5000;
  setup.flows = 64;
  const double random = sim::Run(setup).p99_ms;
  setup.flows_in_turn = true;
  EXPECT_LT(sim::Run(setup).p99_ms, random) << "no flow comes twice in a row";

  setup.rate_rps = 3600;  // of 4000
  const double by_flow = sim::Run(setup).p99_ms;
  setup.flows_are_spread = true;
  EXPECT_LT(sim::Run(setup).p99_ms, by_flow / 2) << "64 flows overload one of eight servers";
}

}  // namespace
}  // namespace spillway::sim
