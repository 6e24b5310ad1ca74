// SPDX-License-Identifier: Apache-2.0
// Random draws, latencies, whole runs and sweeps: the same everywhere, and with the effects they must have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "sim/latencies.h"
#include "sim/sweep.h"
#include "sim/workload.h"
#include "terms.h"

namespace spillway::sim {
namespace {

using namespace std::chrono_literals;

TEST(Latencies, QuantilesAreWithinTwoThousandthsOfTheSortedOnes) {
  std::mt19937_64 random(1);
  Latencies latencies;
  std::vector<uint64_t> all;
  for (int i = 0; i < 100'000; i++) {
    all.push_back(static_cast<uint64_t>(std::exp(std::uniform_real_distribution<>(0, 30)(random))));
    latencies.Add(all.back());
  }
  std::sort(all.begin(), all.end());
  for (double q : {0.001, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto exact = static_cast<double>(all[static_cast<size_t>(std::ceil(q * 1e5)) - 1]);
    EXPECT_NEAR(latencies.QuantileNs(q), exact, exact * 0.002 + 1) << q;
  }
  EXPECT_EQ(Latencies().QuantileNs(0.5), 0);
}

class Multipliers : public testing::TestWithParam<std::pair<Spread, double>> {};

TEST_P(Multipliers, HaveTheirMomentsAndTails) {
  const auto [spread, cv] = GetParam();
  ServiceTimes times(spread, cv);
  Random random(3);
  const int n = 2'000'000;
  double sum = 0, squares = 0, deviation = 0;
  int beyond = 0;
  const double far = spread == Spread::kExponential ? std::log(1e4) : -1;
  for (int i = 0; i < n; i++) {
    const double x = times.Draw(random);
    sum += x;
    squares += x * x;
    deviation += std::abs(x - 1);
    beyond += x > far;
  }
  const double mean = sum / n;
  EXPECT_NEAR(mean, 1, 0.005);
  EXPECT_NEAR(std::sqrt(squares / n - mean * mean), cv, 0.01 + cv * 0.01);
  EXPECT_NEAR(deviation / n, times.MeanDeviation(), 0.003);
  if (spread == Spread::kExponential) {
    EXPECT_NEAR(beyond, n / 1e4, 60) << "the tail";
  }
}
INSTANTIATE_TEST_SUITE_P(Kinds, Multipliers,
                         testing::Values(std::pair{Spread::kLognormal, 0.0},
                                         std::pair{Spread::kLognormal, 0.2},
                                         std::pair{Spread::kLognormal, 1.0},
                                         std::pair{Spread::kExponential, 1.0}));

TEST(ServiceTimes, OfTwoModesHaveMeanOneAndTheRatioBetweenThem) {
  ServiceTimes times(Spread::kBimodal, 0, {0.05, 10});
  Random random(3);
  const int n = 1'000'000;
  double sum = 0, deviation = 0, least = 1e9, greatest = 0;
  int heavy = 0;
  for (int i = 0; i < n; i++) {
    const double x = times.Draw(random);
    sum += x;
    deviation += std::abs(x - 1);
    heavy += x > 1;
    least = std::min(least, x);
    greatest = std::max(greatest, x);
  }
  EXPECT_NEAR(sum / n, 1, 0.005);
  EXPECT_NEAR(deviation / n, times.MeanDeviation(), 0.005);
  EXPECT_NEAR(heavy, n * 0.05, 1000);
  EXPECT_NEAR(greatest / least, 10, 1e-9);
}

// p99 lies at the heavy ones where these are one in a hundred.
TEST(ServiceTimes, OfTwoModesMayHaveJustTheShareOfHeavyOnesInAnyOrder) {
  ServiceTimes times(Spread::kBimodal, 0, {0.01, 50});
  Random random(5);
  const int n = 10'000, runs = 2'000;
  double sum = 0, squares = 0;
  for (int run = 0; run < runs; run++) {
    times.FixHeavyAmong(n);
    int heavy = 0, early = 0;
    for (int i = 0; i < n; i++) {
      heavy += times.Draw(random) > 1;
      if (i == n / 2 - 1) early = heavy;
    }
    ASSERT_EQ(heavy, 100);
    sum += early;
    squares += early * early;
  }
  const double mean = sum / runs;
  EXPECT_NEAR(mean, 50, 0.5);
  // Of a hypergeometric distribution.
  EXPECT_NEAR(squares / runs - mean * mean, 25, 2.5);

  int heavy = 0;
  for (int i = 0; i < 100 * n; i++) heavy += times.Draw(random) > 1;
  EXPECT_NEAR(heavy, n, 500) << "after them by chance, as before";
}

UnitProfile Unit(const char* name, spw_unit_kind kind, double capacity, Duration service, Duration unloaded) {
  UnitProfile unit;
  unit.name = name;
  unit.kind = kind;
  unit.capacity = capacity;
  unit.service = service;
  unit.fixed = unloaded - service;
  return unit;
}

// The DNS servers of P4Mite (ICNP 2022), figure 5a.
Scenario Dns(std::vector<double> loads) {
  Scenario scenario;
  App app;
  app.name = "dns";
  app.groups = {
      {1, {Unit("cpu", SPW_KIND_CPU, 5, 436us, 3ms), Unit("nic", SPW_KIND_SMARTNIC, 1, 2182us, 3ms)}}};
  app.threshold = 100ms;
  app.joint_rps = 2750;
  scenario.apps = {app};
  scenario.arrivals = {{ArrivalKind::kPoisson, "poisson", {}}};
  Reports answered;
  answered.name = "answered";
  answered.delay = 1100us;
  scenario.reports = {answered};
  scenario.axis.values = std::move(loads);
  scenario.requests = 40'000;
  scenario.warm_up = 4000;
  return scenario;
}

RunResult Only(const Scenario& scenario) { return RunSweep(scenario, 1, nullptr, nullptr).rows.at(0).result; }

TEST(Sweep, GivesTheSameRowsWithAnyNumberOfThreads) {
  Scenario scenario = Dns({30, 70, 90});
  scenario.policies = {UnitPolicy("headroom", SPW_UNIT_HEADROOM), UnitPolicy("wrr", SPW_UNIT_WRR)};
  const SweepResult one = RunSweep(scenario, 1, nullptr, nullptr),
                    four = RunSweep(scenario, 4, nullptr, nullptr);
  ASSERT_EQ(one.rows.size(), 6u);
  ASSERT_EQ(four.rows.size(), 6u);
  for (size_t i = 0; i < 6; i++) {
    EXPECT_EQ(one.rows[i].policy, four.rows[i].policy);
    EXPECT_EQ(one.rows[i].result.p99_ms, four.rows[i].result.p99_ms);
    EXPECT_EQ(one.rows[i].result.share, four.rows[i].result.share);
  }
  scenario.seed = 2;
  EXPECT_NE(RunSweep(scenario, 1, nullptr, nullptr).rows[0].result.p99_ms, one.rows[0].result.p99_ms);
}

TEST(Sweep, StopsWhenAskedAndKeepsWholeRowsOnly) {
  Scenario scenario = Dns({30, 70, 90});
  scenario.policies = {UnitPolicy("wrr", SPW_UNIT_WRR)};
  size_t done = 0, planned = 0;
  auto progress = [&](size_t finished, size_t total, const std::string&) {
    done = finished, planned = total;
  };
  const SweepResult sweep = RunSweep(scenario, 1, progress, [&] { return done == 2; });
  EXPECT_EQ(planned, 3u);
  EXPECT_TRUE(sweep.interrupted);
  EXPECT_EQ(sweep.rows.size(), 2u);
}

TEST(Sweep, StopsInTheMiddleOfARun) {
  Scenario scenario = Dns({50});
  scenario.policies = {UnitPolicy("wrr", SPW_UNIT_WRR)};
  scenario.requests = 1'000'000'000'000;
  int asked = 0;
  const SweepResult sweep = RunSweep(scenario, 1, nullptr, [&] { return ++asked == 3; });
  EXPECT_TRUE(sweep.interrupted);
  EXPECT_TRUE(sweep.rows.empty());
}

TEST(Sweep, TakesPercentilesOverAllRunsOfAPoint) {
  Scenario scenario = Dns({90});
  scenario.policies = {UnitPolicy("least-loaded", SPW_UNIT_LEAST_LOADED)};
  scenario.requests = 4000;
  const RunResult one = Only(scenario);
  scenario.runs = 2;
  const RunResult two = Only(scenario);
  scenario.runs = 3;
  const RunResult three = Only(scenario);
  EXPECT_EQ(three.requests, 3 * one.requests);
  EXPECT_GT(two.reports_sent, one.reports_sent);
  EXPECT_GT(three.reports_sent, two.reports_sent);
  EXPECT_NEAR(three.simulated_s / one.simulated_s, 3, 0.3);
  EXPECT_NEAR(three.share[0] + three.share[1], 1, 1e-9);
  // Of two runs the first is known, so the mean tells the second's; seeds differ, or they would be alike.
  const double second_ms = 2 * two.mean_ms - one.mean_ms, third_ms = 3 * three.mean_ms - 2 * two.mean_ms;
  EXPECT_GT(std::abs(second_ms - one.mean_ms), 1e-3);
  EXPECT_GT(std::abs(third_ms - second_ms), 1e-3);
  EXPECT_EQ(Only(scenario).p99_ms, three.p99_ms);
}

TEST(RunSeveral, PoolsTheAnswersOfRunsWithSeedsOfTheirOwn) {
  const Scenario scenario = Dns({});
  const PolicyChoice wrr = UnitPolicy("wrr", SPW_UNIT_WRR);
  RunSetup setup;
  setup.app = &scenario.apps[0];
  setup.arrivals = &scenario.arrivals[0];
  setup.reports = &scenario.reports[0];
  setup.policy = &wrr;
  setup.rate_rps = 2400;
  setup.requests = 3000;
  setup.seed = 5;
  const RunResult all = RunSeveral(setup, 3);
  Latencies pool;
  double loss = 0;
  for (const uint64_t run : {0, 1, 2}) {
    setup.seed = 5 + (run << 32);
    loss += sim::Run(setup, &pool).loss / 3;
  }
  EXPECT_EQ(all.p99_ms, pool.QuantileNs(0.99) / 1e6);
  EXPECT_EQ(all.p50_ms, pool.QuantileNs(0.5) / 1e6);
  EXPECT_DOUBLE_EQ(all.loss, loss);
}

// A unit that stands still now and then: the switch learns of it between two reports.
TEST(Reports, ComeMoreOftenWhereAgentsCheckWhatTheSwitchBelieves) {
  Scenario scenario = Dns({});
  scenario.apps[0].groups[0].units[0].interference.stall = {500ms, 20ms};
  const PolicyChoice headroom = UnitPolicy("headroom", SPW_UNIT_HEADROOM);
  RunSetup setup;
  setup.app = &scenario.apps[0];
  setup.arrivals = &scenario.arrivals[0];
  setup.policy = &headroom;
  setup.rate_rps = 1400;
  setup.requests = 10'000;
  setup.silent_after = 3s;
  Reports reports;
  reports.period = 5ms;
  reports.learned = true;
  setup.reports = &reports;
  const uint64_t checked = sim::Run(setup).reports_sent;
  reports.check = 5ms;
  const uint64_t as_often = sim::Run(setup).reports_sent;
  reports.check = 0ms;
  const uint64_t unchecked = sim::Run(setup).reports_sent;
  EXPECT_EQ(as_often, unchecked);
  EXPECT_GT(checked, unchecked + unchecked / 20);
}

// What the policy is for: at each load no worse than the better of the two that know nothing of load.
TEST(Headroom, IsAtOrBelowHostOnlyAndWrrAtEveryLoad) {
  Scenario scenario = Dns({10, 50, 70, 80, 90, 95});
  scenario.policies = {UnitPolicy("headroom", SPW_UNIT_HEADROOM), UnitPolicy("host-only", SPW_UNIT_HOST_ONLY),
                       UnitPolicy("wrr", SPW_UNIT_WRR)};
  const SweepResult sweep = RunSweep(scenario, 2, nullptr, nullptr);
  for (size_t i = 0; i < sweep.rows.size(); i += 3) {
    const double best = std::min(sweep.rows[i + 1].result.p99_ms, sweep.rows[i + 2].result.p99_ms);
    EXPECT_LE(sweep.rows[i].result.p99_ms, 1.05 * best) << sweep.rows[i].axis << " %";
    EXPECT_LE(sweep.rows[i].result.loss, 0.01);
  }
}

TEST(Reports, LostAndLateOnesCostHeadroomLittle) {
  Scenario scenario = Dns({80});
  scenario.policies = {UnitPolicy("headroom", SPW_UNIT_HEADROOM)};
  const double fresh = Only(scenario).p99_ms;
  scenario.reports[0].loss = 0.2;
  const RunResult lossy = Only(scenario);
  EXPECT_NEAR(static_cast<double>(lossy.reports_lost) / static_cast<double>(lossy.reports_sent), 0.2, 0.02);
  EXPECT_LE(lossy.p99_ms, 1.2 * fresh);
  scenario.reports[0].delay = 100ms;
  EXPECT_LE(Only(scenario).p99_ms, 2.5 * fresh) << "host-only is lost at this load";
}

// Without reports a unit is silent and gets its share by capacity: never more, and never nothing.
// The agent's learner in the loop: what it makes of the answers serves as well as the truth, and at once
// from a cold start.
TEST(Reports, OfLearningAgentsDoAboutAsWellAsOfThoseThatKnow) {
  for (const Duration period : {Duration(0), Duration(20ms)}) {
    Scenario scenario = Dns({20, 60, 80, 90});
    scenario.policies = {UnitPolicy("headroom", SPW_UNIT_HEADROOM)};
    scenario.reports[0].period = period;
    scenario.reports.push_back(scenario.reports[0]);
    scenario.reports[1].learned = true;
    const SweepResult sweep = RunSweep(scenario, 2, nullptr, nullptr);
    ASSERT_EQ(sweep.rows.size(), 8u);
    for (size_t i = 0; i < 8; i += 2) {
      const double known = sweep.rows[i].result.p99_ms, learned = sweep.rows[i + 1].result.p99_ms;
      // While hardly any request waits, slot is only an upper bound (docs/agent.md); worst seen: 1.22.
      EXPECT_LE(learned, known * 1.25) << sweep.rows[i].axis;
      EXPECT_NE(learned, known) << "nothing was learnt";
    }
  }
}

TEST(Reports, AnAgentThatIsNeverHeardLeavesSharesByCapacity) {
  Scenario scenario = Dns({50});
  scenario.policies = {UnitPolicy("headroom", SPW_UNIT_HEADROOM)};
  scenario.reports[0].loss = 1;
  EXPECT_NEAR(Only(scenario).share.at(1), 1.0 / 6, 0.01);
}

TEST(Failures, ANoticedUnitLosesOnlyWhatItHeld) {
  Scenario scenario = Dns({60});
  scenario.policies = {UnitPolicy("headroom", SPW_UNIT_HEADROOM)};
  Failure failure;
  failure.unit = 1;
  failure.at = 5s;
  failure.until = 1000s;
  scenario.apps[0].failures = {failure};
  const RunResult silent = Only(scenario);
  scenario.apps[0].failures[0].noticed = 0ms;
  const RunResult noticed = Only(scenario);
  EXPECT_LE(noticed.dropped, 10u);
  EXPECT_GT(silent.dropped, 100u) << "a silent unit keeps its share by capacity";
  EXPECT_LT(silent.dropped, silent.requests / 5);
}

TEST(Layout, MoreServersThanASwitchHoldsAreSeveralPools) {
  Scenario scenario = Dns({50});
  scenario.apps[0].groups[0].count = 10'000;
  scenario.policies = {UnitPolicy("headroom", SPW_UNIT_HEADROOM)};
  scenario.requests = 50'000;
  const RunResult result = Only(scenario);
  EXPECT_EQ(result.dropped, 0u);
  EXPECT_LT(result.p99_ms, 8);
}

TEST(Layout, UnitsAsServersKeepTheirColumns) {
  Scenario scenario = Dns({50});
  PolicyChoice wcmp = UnitPolicy("wcmp", SPW_UNIT_WRR);
  wcmp.server_policy = SPW_SERVER_WCMP;
  wcmp.units_as_servers = true;
  scenario.policies = {wcmp};
  EXPECT_NEAR(Only(scenario).share.at(1), 1.0 / 6, 0.01);
}

TEST(Axis, WorkScalesServiceAtAFixedRate) {
  Scenario scenario = Dns({1, 2});
  scenario.axis = {AxisKind::kWork, "work", {1, 2}, 100};
  scenario.policies = {UnitPolicy("host-only", SPW_UNIT_HOST_ONLY)};
  const SweepResult sweep = RunSweep(scenario, 1, nullptr, nullptr);
  EXPECT_NEAR(sweep.rows[1].result.p50_ms - sweep.rows[0].result.p50_ms, 0.436, 0.03);
  EXPECT_EQ(sweep.rows[1].rate_rps, 100);
}

TEST(Flows, OfWhichThereIsOneGoAllToOneServer) {
  Scenario scenario = Dns({40});
  PolicyChoice wcmp = UnitPolicy("wcmp", SPW_UNIT_WRR);
  wcmp.server_policy = SPW_SERVER_WCMP;
  wcmp.units_as_servers = true;
  scenario.policies = {wcmp};
  const auto share = [&](uint32_t flows) {
    scenario.flows = flows;
    return Only(scenario).share.at(1);
  };
  EXPECT_NEAR(share(0), 1.0 / 6, 0.01);
  EXPECT_TRUE(share(1) == 0 || share(1) == 1) << share(1);
  const double eighths = 8 * share(8);
  EXPECT_NEAR(eighths, std::round(eighths), 0.1) << "each as often as the others";
}

TEST(Apps, HaveSettingsOfTheirOwn) {
  Scenario scenario = Dns({40, 80});
  scenario.policies = {UnitPolicy("headroom", SPW_UNIT_HEADROOM), UnitPolicy("jsq", SPW_UNIT_JSQ)};
  scenario.apps.push_back(scenario.apps[0]);
  App& own = scenario.apps[1];
  own.name = "own";
  own.own.load_pct = {20};
  own.own.arrivals = {{ArrivalKind::kConstant, "constant", {}}};
  own.own.reports = {{"late", 5ms, 2ms, 0ms, 0, false}};
  own.own.requests = 1000;
  own.own.runs = 3;
  own.own.warm_up = 0;
  own.own.wire = 1ms;
  const SweepResult sweep = RunSweep(scenario, 1, nullptr, nullptr);
  ASSERT_EQ(sweep.rows.size(), 6u);
  EXPECT_EQ(sweep.rows[3].arrivals, "poisson");
  for (size_t i : {4, 5}) {
    const Row& row = sweep.rows[i];
    EXPECT_EQ(row.axis, 20);
    EXPECT_EQ(row.arrivals, "constant");
    EXPECT_EQ(row.reports, "late");
    EXPECT_EQ(row.result.requests, 3 * 1000u);
  }
  EXPECT_EQ(sweep.rows[3].result.requests, scenario.requests);
  Resize(scenario, 20'000);
  EXPECT_EQ(scenario.requests, 20'000u);
  EXPECT_EQ(scenario.warm_up, 2000u);
  EXPECT_EQ(scenario.apps[1].own.requests, 500u);
}

TEST(Apps, TheirServerPolicyHoldsForPoliciesThatNameNone) {
  Scenario scenario = Dns({95});
  scenario.apps[0].groups[0].count = 8;
  scenario.apps[0].joint_rps = 0;
  PolicyChoice none = UnitPolicy("none", SPW_UNIT_LEAST_LOADED), named = none, p2c = none;
  named.name = "named";
  named.server_policy_named = true;
  p2c.name = "p2c";
  p2c.server_policy = SPW_SERVER_P2C;
  p2c.server_policy_named = true;
  scenario.policies = {none, named, p2c};
  scenario.apps[0].own.server_policy = SPW_SERVER_P2C;
  const SweepResult sweep = RunSweep(scenario, 1, nullptr, nullptr);
  EXPECT_EQ(sweep.rows[0].result.p99_ms, sweep.rows[2].result.p99_ms);
  EXPECT_NE(sweep.rows[1].result.p99_ms, sweep.rows[2].result.p99_ms);
}

TEST(Trace, IsRepeatedAndScaledToTheWantedRate) {
  Scenario scenario = Dns({40});
  scenario.arrivals = {{ArrivalKind::kTrace, "trace", {0, 0.001, 0.010, 0.012, 0.030}}};
  scenario.policies = {UnitPolicy("wrr", SPW_UNIT_WRR)};
  const RunResult result = Only(scenario);
  EXPECT_NEAR(static_cast<double>(result.requests) / result.simulated_s, 0.4 * 2750, 11);
}

}  // namespace
}  // namespace spillway::sim
