// SPDX-License-Identifier: Apache-2.0
// The baselines' rules, each on states made by hand: told what a switch would be told, asked for a unit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "sim/baselines/decider.h"
#include "sim/baselines/known_load.h"
#include "sim/baselines/scd.h"
#include "terms.h"

namespace spillway::sim {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

DeciderSetup Units(std::vector<double> capacities) {
  DeciderSetup setup;
  for (double capacity : capacities) setup.units.push_back({0, capacity});
  setup.wire = kMs / 20;
  setup.silent_after = 3000 * kMs;
  return setup;
}

SeenAnswer Answer(uint32_t unit, Time at, Time latency) {
  return {.unit = unit, .at = at, .latency = latency};
}
UnitLoad Load(uint32_t unit, uint32_t rif, Time latency, Time at = 0) {
  return {unit, at, at, rif, latency, nullptr};
}

// How often each unit is chosen in `n` requests at `now`, all answered at once with `latency`.
std::map<uint32_t, int> Count(Decider& decider, int n, Time now, Time latency) {
  std::map<uint32_t, int> chosen;
  for (int i = 0; i < n; i++) {
    const uint32_t unit = decider.Choose(now).value();
    chosen[unit]++;
    decider.SeeAnswer(Answer(unit, now, latency));
  }
  return chosen;
}

// ---- every policy

class EveryBaseline : public testing::TestWithParam<DeciderKind> {};

TEST_P(EveryBaseline, PlacesNothingOnUnitsThatAreDown) {
  const auto decider = MakeDecider(GetParam(), Units({1, 2, 3}));
  decider->SetDown(0, true);
  decider->SetDown(2, true);
  decider->HearIdle(2, 5);
  for (int i = 0; i < 20; i++) EXPECT_EQ(decider->Choose(i * kMs), 1u);
  decider->SetDown(1, true);
  EXPECT_EQ(decider->Choose(20 * kMs), std::nullopt);
  decider->SetDown(0, false);
  EXPECT_EQ(decider->Choose(21 * kMs), 0u);
}
INSTANTIATE_TEST_SUITE_P(Kinds, EveryBaseline,
                         testing::Values(DeciderKind::kPrequal, DeciderKind::kC3, DeciderKind::kPeakEwma,
                                         DeciderKind::kLeastRequest, DeciderKind::kJiq, DeciderKind::kScd));

TEST(UnitSet, OfManyUnitsThoseOfTwoServersAreSeen) {
  std::vector<DeciderUnit> units;
  for (uint32_t u = 0; u < 66; u++) units.push_back({u / 3, 1});
  UnitSet many(units);
  Random random(1);
  std::set<uint32_t> servers;
  for (int i = 0; i < 1000; i++) {
    std::set<uint32_t> now;
    const auto seen = many.See(random);
    for (uint32_t u : seen) now.insert(u / 3);
    EXPECT_EQ(seen.size(), 3 * now.size());
    EXPECT_LE(now.size(), 2u);
    servers.merge(now);
  }
  EXPECT_EQ(servers.size(), 22u);
  units.resize(64);
  EXPECT_EQ(UnitSet(units).See(random).size(), 64u);
}

TEST(UnitSet, DrawsByCapacity) {
  for (size_t n : {4, 100}) {
    std::vector<DeciderUnit> units(n, {0, 1});
    units[1].capacity = 5;
    const UnitSet set(units);
    Random random(3);
    int second = 0;
    for (int i = 0; i < 20'000; i++) second += set.DrawByCapacity(random) == 1;
    const double share = 5.0 / static_cast<double>(n + 4);
    EXPECT_NEAR(second / 20'000.0, share, 4 * std::sqrt(share / 20'000)) << n;
  }
}

// ---- prequal

DeciderSetup Probing(size_t units, double quantile = 0.84) {
  DeciderSetup setup = Units(std::vector<double>(units, 1));
  setup.choice.probes = true;
  setup.choice.quantile = quantile;
  return setup;
}

TEST(Prequal, TakesTheLowestLatencyAmongColdUnits) {
  const auto told = [](double quantile) {
    auto prequal = MakePrequal(Probing(100, quantile));
    for (auto [unit, rif, latency] :
         {std::tuple{12u, 9u, 10}, {7u, 3u, 40}, {8u, 1u, 50}, {9u, 4u, 30}, {10u, 4u, 60}, {11u, 4u, 70}})
      prequal->HearProbe(Load(unit, rif, latency * kMs));
    return prequal;
  };
  // Of six RIFs 0.84 is the sixth, 9: nobody is hot. 0.6 is the fourth, 4: unit 12, the quickest, is.
  EXPECT_EQ(told(0.84)->Choose(kMs), 12u);
  EXPECT_EQ(told(0.6)->Choose(kMs), 9u);
}

TEST(Prequal, TakesTheLowestRifWhenAllAreHot) {
  const auto prequal = MakePrequal(Probing(100));
  for (int i = 0; i < 128; i++) prequal->HearProbe(Load(1, 2, kMs));  // the threshold is 2
  prequal->HearProbe(Load(1, 8, 10 * kMs));
  prequal->HearProbe(Load(2, 6, 90 * kMs));
  prequal->HearProbe(Load(3, 7, 20 * kMs));
  EXPECT_EQ(prequal->Choose(kMs), 2u);
}

TEST(Prequal, APickedUnitsRifGrowsAndItsEntryIsUsedUp) {
  // 1,000 units: uses = (1 + 1) / ((1 - 16 / 1000) * 3 - 1) = 1.025: one, now and then two.
  const auto prequal = MakePrequal(Probing(1000));
  for (uint32_t u = 0; u < 6; u++) prequal->HearProbe(Load(u, 0, (u + 1) * kMs));
  std::set<uint32_t> chosen;
  // Each request also removes one, in turns the oldest, 0, and the worst, 5 and 4.
  for (int i = 0; i < 2; i++) chosen.insert(prequal->Choose(kMs).value());
  EXPECT_THAT(chosen, UnorderedElementsAre(0, 2))
      << "of the second request's entries 1 is the oldest, and gone";
}

TEST(Prequal, FewerThanTwoFreshEntriesAreNoReasonToPreferOne) {
  for (const bool old : {false, true}) {
    const auto prequal = MakePrequal(Probing(1000));
    prequal->HearProbe(Load(1, 0, kMs, 0));
    if (old) prequal->HearProbe(Load(2, 0, kMs, 0));
    EXPECT_GT(prequal->Choose(old ? 1001 * kMs : kMs), 2u) << "one at random of a thousand";
  }
}

TEST(Prequal, ProbesThreeDistinctUnitsForEachRequest) {
  const auto prequal = MakePrequal(Probing(5));
  for (int i = 0; i < 50; i++) {
    ASSERT_TRUE(prequal->Choose(i));
    const auto probes = prequal->Probes();
    EXPECT_EQ(std::set<uint32_t>(probes.begin(), probes.end()).size(), 3u);
  }
  const auto two = MakePrequal(Probing(2));
  ASSERT_TRUE(two->Choose(0));
  EXPECT_EQ(two->Probes().size(), 2u);
}

TEST(Prequal, InAServerOfFewUnitsReadsReportsAndCountsWhatItSentSince) {
  DeciderSetup setup = Units({1, 1, 1});
  const auto prequal = MakePrequal(setup);
  EXPECT_TRUE(prequal->messages().reports);
  using Past = std::vector<std::pair<uint32_t, Time>>;
  const auto report = [&](uint32_t unit, uint32_t rif, Time at, const Past& past) {
    UnitHistory history;
    for (auto [found, latency] : past) history.Come(), history.Answer(found, latency * kMs);
    UnitLoad load = Load(unit, rif, 0, at);
    load.history = &history;
    prequal->HearReport(load);
  };
  // Of RIFs 1, 2, 5, 0.84 is 5: all are cold until they hold more. Unit 0 takes 9 ms, unit 1 3 ms up to RIF
  // 3, then 7, unit 2 5 ms.
  report(0, 1, 0, {{1, 9}});
  report(1, 2, 0, {{2, 3}, {5, 7}});
  report(2, 5, 0, {{1, 5}});
  std::vector<uint32_t> chosen;
  for (int i = 0; i < 5; i++) chosen.push_back(prequal->Choose(kMs).value());
  EXPECT_THAT(chosen, ElementsAre(1, 1, 2, 1, 1)) << "3, 3, 5 of unit 2, which is hot with it, then 7, 7";
  // A report that was made after they arrived has them in it.
  report(1, 2, 3 * kMs, {{2, 3}, {5, 7}});
  EXPECT_EQ(prequal->Choose(4 * kMs), 1u);
  setup.units.resize(9);
  EXPECT_FALSE(MakePrequal(setup)->messages().reports);
}

TEST(Prequal, AUnitsLatencyIsTheMedianAtTheNearestRif) {
  UnitHistory unit;
  EXPECT_EQ(unit.LatencyAt(3), 0);
  for (int i = 0; i < 6; i++) EXPECT_EQ(unit.Come(), static_cast<uint32_t>(i));
  for (Time latency : {10, 30, 20}) unit.Answer(5, latency);
  for (Time latency : {1, 2}) unit.Answer(0, latency);
  EXPECT_EQ(unit.rif(), 1u);
  EXPECT_EQ(unit.LatencyAt(1), 1) << "RIF 0 is nearest to 1";
  EXPECT_EQ(unit.LatencyAt(4), 20) << "RIF 5 is nearest to 4";
}

// ---- c3

TEST(C3, WeighsTheQueueByItsCube) {
  DeciderSetup setup = Units({1, 1});
  const auto c3 = MakeC3(setup);
  // Both asked once while nothing is known of them, in whichever order.
  std::set<uint32_t> asked;
  for (int i = 0; i < 100 && asked.size() < 2; i++) {
    const uint32_t unit = c3->Choose(0).value();
    if (!asked.insert(unit).second) c3->SeeAnswer({.unit = unit, .at = 0, .lost = true});
  }
  ASSERT_EQ(asked.size(), 2u);
  // Unit 0: 10 ms of network, 1 ms of service, none left: 10 + (1 + own)^3. Unit 1: 1 ms, 1 ms, two left:
  // 1 + (3 + own)^3. 11 < 28, 18 < 28, 37 > 28, 37 < 65, 74 > 65.
  c3->SeeAnswer({.unit = 0, .at = 0, .latency = 14 * kMs, .queue = 0, .waited = 3 * kMs, .service = kMs});
  c3->SeeAnswer({.unit = 1, .at = 0, .latency = 2 * kMs, .queue = 2, .waited = 0, .service = kMs});
  std::vector<uint32_t> chosen;
  for (int i = 0; i < 5; i++) chosen.push_back(c3->Choose(0).value());
  EXPECT_THAT(chosen, ElementsAre(0, 0, 1, 0, 1));
}

TEST(C3, TakesItsOwnPendingRequestsAsEverySwitchs) {
  DeciderSetup setup = Units({1, 1});
  setup.switches = 4;
  const auto c3 = MakeC3(setup);
  std::set<uint32_t> asked;
  for (int i = 0; i < 100 && asked.size() < 2; i++) {
    const uint32_t unit = c3->Choose(0).value();
    if (!asked.insert(unit).second) c3->SeeAnswer({.unit = unit, .at = 0, .lost = true});
  }
  // 0.1 ms against 1 ms: with one switch 0.1 * 3^3 > 1 after two; with four 0.1 * (1 + 4)^3 after one.
  c3->SeeAnswer({.unit = 0, .at = 0, .latency = kMs / 10, .service = kMs / 10});
  c3->SeeAnswer({.unit = 1, .at = 0, .latency = kMs, .service = kMs});
  EXPECT_EQ(c3->Choose(0), 0u);
  EXPECT_EQ(c3->Choose(0), 1u);
}

// ---- peak-ewma

TEST(PeakEwma, JumpsToAPeakAtOnceAndDecaysSlowly) {
  const auto ewma = MakePeakEwma(Units({1, 1}));  // decays over 10 s
  for (int i = 0; i < 2; i++) ASSERT_TRUE(ewma->Choose(0));
  ewma->SeeAnswer(Answer(0, 0, 2 * kMs));
  ewma->SeeAnswer(Answer(1, 0, 3 * kMs));
  EXPECT_EQ(Count(*ewma, 10, 0, kMs), (std::map<uint32_t, int>{{0, 10}})) << "2 < 3";
  ASSERT_EQ(ewma->Choose(0), 0u);
  ewma->SeeAnswer(Answer(0, 0, 80 * kMs));
  EXPECT_EQ(Count(*ewma, 10, 0, 3 * kMs), (std::map<uint32_t, int>{{1, 10}})) << "one slow answer is enough";
  // Unit 1 answers in 3 ms all the time; unit 0's 80 are 3 after 10 s * ln(80 / 3) = 32.8 s.
  for (int second = 1; second <= 33; second++) {
    ASSERT_EQ(ewma->Choose(second * 1000 * kMs), 1u) << second;
    ewma->SeeAnswer(Answer(1, second * 1000 * kMs, 3 * kMs));
  }
  EXPECT_EQ(ewma->Choose(33'000 * kMs), 0u);
}

TEST(PeakEwma, CountsActiveRequests) {
  const auto ewma = MakePeakEwma(Units({1, 1}));
  for (int i = 0; i < 2; i++) ASSERT_TRUE(ewma->Choose(0));
  ewma->SeeAnswer(Answer(0, 0, 2 * kMs));
  ewma->SeeAnswer(Answer(1, 0, 5 * kMs));
  std::map<uint32_t, int> chosen;
  for (int i = 0; i < 3; i++) chosen[ewma->Choose(0).value()]++;
  EXPECT_EQ(chosen, (std::map<uint32_t, int>{{0, 2}, {1, 1}})) << "2, 4, then 6 against 5";
}

// ---- least-request

TEST(LeastRequest, OfEqualUnitsTheOneWithFewerActive) {
  const auto least = MakeLeastRequest(Units({1, 1}));
  std::map<uint32_t, int> chosen;
  for (int i = 0; i < 10; i++) chosen[least->Choose(0).value()]++;
  EXPECT_EQ(chosen, (std::map<uint32_t, int>{{0, 5}, {1, 5}}));
}

TEST(LeastRequest, OfUnequalUnitsByWeightOverActivePlusOneToTheBias) {
  for (double bias : {0.0, 1.0, 2.0}) {
    DeciderSetup setup = Units({6, 2});
    setup.choice.bias = bias;
    const auto least = MakeLeastRequest(setup);
    // Unit 0 is made to hold 2 at all times, unit 1 none.
    std::map<uint32_t, int> held;
    while (held[0] < 2) {
      const uint32_t unit = least->Choose(0).value();
      if (unit == 0)
        held[0]++;
      else
        least->SeeAnswer(Answer(unit, 0, kMs));
    }
    const auto chosen = Count(*least, 10'000, 0, kMs);
    const double weight = 6 / std::pow(3, bias);
    EXPECT_NEAR(chosen.at(0), 10'000 * weight / (weight + 2), 2) << bias;
  }
}

// ---- jiq

TEST(Jiq, TakesIdleUnitsFirstByCapacity) {
  const auto jiq = MakeJiq(Units({1, 3, 2, 1'000'000}));
  jiq->HearIdle(0, 1);
  jiq->HearIdle(1, 2);
  jiq->HearIdle(2, 1);
  std::vector<uint32_t> chosen;
  for (int i = 0; i < 4; i++) {
    chosen.push_back(jiq->Choose(0).value());
    EXPECT_TRUE(jiq->UsedIdle());
  }
  EXPECT_THAT(chosen, ElementsAre(1, 1, 2, 0));
  EXPECT_EQ(jiq->Choose(0), 3u) << "none is idle: by capacity";
  EXPECT_FALSE(jiq->UsedIdle());
}

// ---- scd

// E sum (q + a_u - mu_u W)^2 / mu_u over all ways in which n requests fall, each with these shares; W: any.
double ExpectedLoad(const std::vector<ScdQueue>& queues, const std::vector<double>& shares, int n,
                    double level) {
  double sum = 0;
  for (size_t u = 0; u < queues.size(); u++) {
    for (int a = 0; a <= n; a++) {
      const double ways = std::exp(std::lgamma(n + 1) - std::lgamma(a + 1) - std::lgamma(n - a + 1));
      const double chance = ways * std::pow(shares[u], a) * std::pow(1 - shares[u], n - a);
      const double over = queues[u].length + a - queues[u].rate * level;
      sum += chance * over * over / queues[u].rate;
    }
  }
  return sum;
}

TEST(Scd, SharesMakeTheExpectedLoadLeast) {
  const std::vector<std::vector<ScdQueue>> cases = {{{0, 1}, {0, 1}, {0, 1}},
                                                    {{3, 5}, {1, 1}, {0, 2}},
                                                    {{10, 1}, {2, 4}, {2, 1}},
                                                    {{0, 10}, {7, 1}, {1, 0.5}}};
  for (const auto& queues : cases) {
    for (int n : {2, 3, 12}) {
      const std::vector<double> shares = ScdShares(queues, n);
      EXPECT_NEAR(shares[0] + shares[1] + shares[2], 1, 1e-12);
      const double own = ExpectedLoad(queues, shares, n, 2.5);
      constexpr int kSteps = 100;
      for (int i = 0; i <= kSteps; i++) {
        for (int k = 0; k <= kSteps - i; k++) {
          const std::vector<double> other = {i / 100.0, k / 100.0, (kSteps - i - k) / 100.0};
          ASSERT_GE(ExpectedLoad(queues, other, n, 2.5), own - 1e-9) << n << " " << i << " " << k;
        }
      }
    }
  }
}

TEST(Scd, AloneItIsTheShortestExpectedDelay) {
  EXPECT_THAT(ScdShares(std::vector<ScdQueue>{{3, 5}, {0, 1}, {1, 2}}, 1), ElementsAre(0, 1, 0));
  const auto scd = MakeScd(Units({5, 1}));
  scd->HearReport(Load(0, 4, 0));
  scd->HearReport(Load(1, 1, 0));
  // (2q + 1) / mu: 9/5 against 3, 11/5, 13/5, 3, 17/5; what was placed counts.
  std::vector<uint32_t> chosen;
  for (int i = 0; i < 5; i++) chosen.push_back(scd->Choose(i + 1).value());
  EXPECT_THAT(std::vector(chosen.begin(), chosen.begin() + 3), ElementsAre(0, 0, 0));
  EXPECT_THAT(std::vector(chosen.begin() + 3, chosen.end()), UnorderedElementsAre(0, 1));
}

TEST(Scd, OfSeveralSwitchesNotAllRunToTheIdlest) {
  for (uint32_t switches : {1u, 10u}) {
    DeciderSetup setup = Units({1, 1});
    setup.switches = switches;
    const auto scd = MakeScd(setup);
    std::map<uint32_t, int> chosen;
    for (int i = 1; i <= 1000; i++) {  // a request and a report each millisecond: 1 against 0 in the queues
      const Time now = i * 2 * kMs;
      scd->HearReport(Load(0, 1, 0, now));
      scd->HearReport(Load(1, 0, 0, now));
      chosen[scd->Choose(now).value()]++;
    }
    // Nine others, one each unseen: A = 10, and of p = (K - 3) / 18, (K - 1) / 18: 4/9 and 5/9.
    if (switches == 1)
      EXPECT_EQ(chosen, (std::map<uint32_t, int>{{1, 1000}}));
    else
      EXPECT_NEAR(chosen[0], 444, 50);
  }
}

}  // namespace
}  // namespace spillway::sim
