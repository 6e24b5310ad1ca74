// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/joint_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace spillway::lab {
namespace {

using std::chrono::milliseconds;
using Units = std::vector<Calibration::Unit>;

UnitSpec WithQuota(double capacity) {
  UnitSpec unit;
  unit.capacity = capacity;
  unit.quota = CpuQuota{milliseconds(1), milliseconds(5)};
  return unit;
}

// A host and a NIC of a fifth of a CPU each: alone 800 and 200 requests/s, so 0.25 and 1 ms of CPU time each.
const std::vector<UnitSpec> kSpecs = {WithQuota(4), WithQuota(1)};
const Units kAlone = {{"cpu", 800, true, {}}, {"nic", 200, true, {}}};

TEST(SlowdownTogether, IsWhatAnAnswerCostsMoreThanAlone) {
  // wrr sends four of five to the host: (4 x 0.25 + 1) / 5 = 0.4 ms each.
  EXPECT_DOUBLE_EQ(SlowdownTogether(kSpecs, kAlone, 900, {{900, 0.54, 900}}), 1.5);
  EXPECT_DOUBLE_EQ(SlowdownTogether(kSpecs, kAlone, 900, {{900, 0.27, 900}}), 1) << "never a speed-up";
}

TEST(SlowdownTogether, OnlySlicesNearFullLoadCount) {
  const JointCost near{900, 0.432, 900}, idle{300, 3, 300}, overload{1200, 3, 900};
  EXPECT_DOUBLE_EQ(SlowdownTogether(kSpecs, kAlone, 900, {idle, near, overload}), 1.2);
  EXPECT_DOUBLE_EQ(SlowdownTogether(kSpecs, kAlone, 900, {idle}), 1);
  EXPECT_DOUBLE_EQ(SlowdownTogether(kSpecs, kAlone, 900, {}), 1);
}

TEST(SlowdownTogether, CannotBeToldOfUnitsWithoutAQuotaOrWithANeighbourInIt) {
  std::vector<UnitSpec> specs = kSpecs;
  specs[1].quota.reset();
  EXPECT_DOUBLE_EQ(SlowdownTogether(specs, kAlone, 900, {{900, 3, 900}}), 1);
  specs = kSpecs;
  specs[0].neighbour.emplace();
  EXPECT_DOUBLE_EQ(SlowdownTogether(specs, kAlone, 900, {{900, 3, 900}}), 1);
}

TEST(CostOverAlone, IsBelowOneWhereTheMachineBecameFasterAndUnknownWithoutAnswers) {
  EXPECT_DOUBLE_EQ(*CostOverAlone(kSpecs, kAlone, 0.288, 900), 0.8);
  EXPECT_FALSE(CostOverAlone(kSpecs, kAlone, 0.288, 0));
  EXPECT_FALSE(CostOverAlone(kSpecs, kAlone, 0, 900));
}

TEST(CostsOverAlone, AreEachUnitsByItsPackets) {
  using testing::DoubleNear;
  using testing::ElementsAre;
  const auto are = [](double host, double nic) {
    return ElementsAre(DoubleNear(host, 1e-9), DoubleNear(nic, 1e-9));
  };
  // 0.25 and 1 ms each alone.
  EXPECT_THAT(*CostsOverAlone(kSpecs, kAlone, {{0.03, 100}, {0.08, 100}}, 1), are(1.2, 0.8));
  EXPECT_THAT(*CostsOverAlone(kSpecs, kAlone, {{0.03, 200}, {0.06, 100}}, 0.5), are(1.2, 1.2))
      << "what was lost cost nothing";
  EXPECT_THAT(*CostsOverAlone(kSpecs, kAlone, {{0.03, 100}, {0.9, 29}}, 1), are(1.2, 1.2))
      << "of the second it can't be told";
}

TEST(CostsOverAlone, CannotBeToldWithoutPacketsOrAQuotaOrWhereTheyAreAbsurd) {
  EXPECT_FALSE(CostsOverAlone(kSpecs, kAlone, {{0.03, 0}, {0.08, 0}}, 1));
  EXPECT_FALSE(CostsOverAlone(kSpecs, kAlone, {}, 1));
  EXPECT_FALSE(CostsOverAlone(kSpecs, kAlone, {{0.3, 100}, {0, 0}}, 1)) << "twelve times";
  std::vector<UnitSpec> specs = kSpecs;
  for (UnitSpec& unit : specs) unit.quota.reset();
  EXPECT_FALSE(CostsOverAlone(specs, kAlone, {{0.03, 100}, {0.08, 100}}, 1));
}

Units Summing(double rps) { return {{"cpu", rps, true, {}}}; }

TEST(MeasuredFastEnough, UnitsThatSustainMoreTogetherThanAloneAreMeasuredAgain) {
  int measured = 0;
  const auto better = [&]() -> Result<Units> {
    measured++;
    return Summing(1000);
  };
  EXPECT_EQ(MeasuredFastEnough(Summing(700), 1000, better)->front().rps, 1000);
  EXPECT_EQ(measured, 1);
  EXPECT_EQ(MeasuredFastEnough(Summing(980), 1000, better)->front().rps, 980)
      << "within what both are sure of";
  EXPECT_EQ(measured, 1);
}

TEST(MeasuredFastEnough, WhatAddsUpToMostIsTakenAndTwiceIsEnough) {
  std::vector<double> results = {600, 800, 900};
  size_t next = 0;
  const auto measure = [&]() -> Result<Units> { return Summing(results[next++]); };
  EXPECT_EQ(MeasuredFastEnough(Summing(700), 1000, measure)->front().rps, 800);
  EXPECT_EQ(next, 2U);
}

TEST(MeasuredFastEnough, AFailureIsTheMeasurings) {
  const auto fails = []() -> Result<Units> { return Fail(ErrorCode::kSystem, "cpu does not answer"); };
  EXPECT_EQ(MeasuredFastEnough(Summing(1), 1000, fails).error().message, "cpu does not answer");
}

}  // namespace
}  // namespace spillway::lab
