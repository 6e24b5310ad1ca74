// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/compute_capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace spillway::lab {
namespace {

using testing::HasSubstr;

UnitSpec Unit(uint32_t workers) {
  UnitSpec unit;
  unit.name = "cpu";
  unit.runs = Workload::kKnn;
  unit.knn.workers = workers;
  return unit;
}

// A unit whose answers take 20 ms of CPU time and, with nothing else to do, of real time.
struct FakeUnit {
  std::vector<double> rates, durations;

  LoadAt AsLoad() {
    return [this](double rate, double seconds) -> Result<MeteredSample> {
      rates.push_back(rate);
      durations.push_back(seconds);
      const auto answers = std::max<size_t>(1, static_cast<size_t>(rate * seconds));
      MeteredSample run;
      run.sample.sent = answers;
      run.sample.seconds = seconds;
      run.sample.latencies_ms.assign(answers, 20);
      run.cpu_time = std::chrono::milliseconds(20) * answers;
      return run;
    };
  }
};

TEST(ComputeCapacity, IsTheQuotaOverTheCpuTimeOfAnAnswer) {
  UnitSpec unit = Unit(4);
  unit.quota = CpuQuota{Micros(5'000), Micros(10'000)};
  FakeUnit fake;
  EXPECT_DOUBLE_EQ(*ComputeCapacity(unit, 2, 2, fake.AsLoad()), 0.5 / 0.020);
}

TEST(ComputeCapacity, WithAQuotaIsReadAtAHighLoadThatLeavesNoQueue) {
  UnitSpec unit = Unit(4);
  unit.quota = CpuQuota{Micros(5'000), Micros(10'000)};
  FakeUnit fake;
  (void)ComputeCapacity(unit, 2, 2, fake.AsLoad());
  ASSERT_EQ(fake.rates.size(), 2u);
  EXPECT_DOUBLE_EQ(fake.rates[1], 0.8 * 25);
}

TEST(ComputeCapacity, AQuotaBeyondItsWorkersOrTheCpusIsNotCounted) {
  UnitSpec unit = Unit(1);
  unit.quota = CpuQuota{Micros(30'000), Micros(10'000)};
  FakeUnit fake;
  EXPECT_DOUBLE_EQ(*ComputeCapacity(unit, 8, 2, fake.AsLoad()), 1 / 0.020);
  unit.knn.workers = 16;
  EXPECT_DOUBLE_EQ(*ComputeCapacity(unit, 2, 2, fake.AsLoad()), 2 / 0.020);
  EXPECT_DOUBLE_EQ(*ComputeCapacity(unit, 8, 2, fake.AsLoad()), 3 / 0.020);
}

TEST(ComputeCapacity, WithoutAQuotaIsTheWorkersOverTheTimeOfAnAnswer) {
  FakeUnit fake;
  EXPECT_DOUBLE_EQ(*ComputeCapacity(Unit(3), 8, 2, fake.AsLoad()), 3 / 0.020);
  EXPECT_DOUBLE_EQ(*ComputeCapacity(Unit(3), 2, 2, fake.AsLoad()), 2 / 0.020);
  EXPECT_LT(fake.rates[1], 0.2 * 3 / 0.020) << "a request that waits would count as a slow one";
}

TEST(ComputeCapacity, ASlowUnitIsMeasuredForLonger) {
  UnitSpec unit = Unit(1);
  unit.quota = CpuQuota{Micros(1'000), Micros(50'000)};  // one answer a second
  FakeUnit fake;
  EXPECT_DOUBLE_EQ(*ComputeCapacity(unit, 2, 2, fake.AsLoad()), 1);
  EXPECT_DOUBLE_EQ(fake.durations[1], 10 / 0.8);
  EXPECT_DOUBLE_EQ(UnloadedPace(1, 2).rate, 0.1);
  EXPECT_DOUBLE_EQ(UnloadedPace(1, 2).seconds, 30);
  EXPECT_DOUBLE_EQ(UnloadedPace(100, 2).seconds, 2);
}

TEST(ComputeCapacity, SaysThatNothingIsAnswered) {
  const auto capacity =
      ComputeCapacity(Unit(1), 2, 2, [](double, double) -> Result<MeteredSample> { return MeteredSample{}; });
  ASSERT_FALSE(capacity);
  EXPECT_THAT(capacity.error().message, HasSubstr("answers nothing"));
}

}  // namespace
}  // namespace spillway::lab
