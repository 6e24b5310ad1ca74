// SPDX-License-Identifier: Apache-2.0
// What keeps a unit from its speed, seen in the latencies of a station.
#include "sim/interference.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/station.h"
#include "terms.h"

namespace spillway::sim {
namespace {

using namespace std::chrono_literals;

UnitProfile OneMillisecond() {
  UnitProfile unit;
  unit.service = 1ms;
  return unit;
}

// Latencies of requests every `gap`, with a seed.
std::vector<double> LatenciesMs(const UnitProfile& unit, Time gap, int count, uint64_t seed = 1) {
  Station station(unit, 1, Duration(0), seed);
  std::vector<double> latencies;
  for (int i = 0; i < count; i++) {
    station.Forget(i * gap);
    latencies.push_back(static_cast<double>(*station.Place(i * gap, 1)) / kMs);
  }
  return latencies;
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(Interference, NothingIsWorkedOnInAStall) {
  UnitProfile unit = OneMillisecond();
  unit.interference.stall = {100ms, 20ms};
  const auto latencies = LatenciesMs(unit, 5 * kMs, 2000);
  const double worst = *std::max_element(latencies.begin(), latencies.end());
  EXPECT_GT(worst, 15);
  EXPECT_LE(worst, 25);
  const auto slow = std::count_if(latencies.begin(), latencies.end(), [](double ms) { return ms > 1.0001; });
  EXPECT_NEAR(static_cast<double>(slow), 2000 * 0.2, 120) << "those that came in a stall, and their queue";
  EXPECT_NE(latencies, LatenciesMs(unit, 5 * kMs, 2000, 2)) << "units do not stall together";
}

TEST(Interference, AStallHoldsUpWorkUnderAQuotaToo) {
  UnitProfile unit = OneMillisecond();
  unit.cpu_quota = {1ms, 5ms};
  const double without = Mean(LatenciesMs(unit, 50 * kMs, 500));
  unit.interference.stall = {100ms, 20ms};
  EXPECT_GT(Mean(LatenciesMs(unit, 50 * kMs, 500)), without + 1);
}

TEST(Interference, PausesHitTheirShareOfRequests) {
  UnitProfile unit = OneMillisecond();
  unit.interference.pause = {0.1, 5ms};
  int late = 0;
  for (double ms : LatenciesMs(unit, 10 * kMs, 10'000)) {
    EXPECT_TRUE(ms == 1 || ms == 6) << ms;
    late += ms == 6;
  }
  EXPECT_NEAR(late, 1000, 100);
}

TEST(Interference, ANeighbourIsThereForItsPartOfTheTime) {
  UnitProfile unit = OneMillisecond();
  unit.interference.neighbour = {300ms, 100ms, 3};
  EXPECT_NEAR(Mean(LatenciesMs(unit, 10 * kMs, 200'000)), 1.5, 0.03)
      << "thrice as slow a quarter of the time";
}

TEST(Interference, SpeedDriftsAroundItself) {
  UnitProfile unit = OneMillisecond();
  unit.interference.drift = {1s, 0.5};
  const auto latencies = LatenciesMs(unit, 10 * kMs, 1000);
  const auto [least, greatest] = std::minmax_element(latencies.begin(), latencies.end());
  EXPECT_NEAR(*least, 1 / 1.5, 0.01);
  EXPECT_NEAR(*greatest, 2, 0.01);
}

TEST(Interference, AColdUnitWarmsUp) {
  UnitProfile unit = OneMillisecond();
  unit.interference.cold = {100ms, 3};
  const auto latencies = LatenciesMs(unit, 50 * kMs, 4);
  EXPECT_DOUBLE_EQ(latencies[0], 3);
  EXPECT_DOUBLE_EQ(latencies[1], 2);
  EXPECT_DOUBLE_EQ(latencies[2], 1);
}

TEST(Interference, AUnitThatFailsFastLooksIdle) {
  UnitProfile unit = OneMillisecond();
  unit.interference.fails_fast = {10ms, 20ms, 50us};
  Station station(unit, 1, Duration(0), 1);
  EXPECT_TRUE(station.Place(0, 1));
  for (int i = 0; i < 5; i++) EXPECT_FALSE(station.Place((10 + i) * kMs, 1)) << "an error is no answer";
  EXPECT_TRUE(station.Place(20 * kMs, 1));
  int quick = 0;
  for (Station::Sight sight; station.Next(30 * kMs, sight);)
    quick += sight.answered && sight.latency == 50'000;
  EXPECT_EQ(quick, 5);
  EXPECT_EQ(station.completed(), 7u);
  EXPECT_EQ(station.queue(), 0u);
}

}  // namespace
}  // namespace spillway::sim
