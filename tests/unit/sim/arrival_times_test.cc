// SPDX-License-Identifier: Apache-2.0
#include "sim/workload.h"

#include <gtest/gtest.h>

namespace spillway::sim {
namespace {

using namespace std::chrono_literals;

TEST(ArrivalTimes, OnOffKeepsTheMeanAndIsSilentWhileOff) {
  Arrivals arrivals;
  arrivals.kind = ArrivalKind::kOnOff;
  arrivals.on = 20ms;
  arrivals.off = 60ms;
  ArrivalTimes times(arrivals, 1000, 1);
  const int n = 200'000;
  int64_t last = 0;
  for (int i = 0; i < n; i++) {
    const int64_t at = times.Next();
    ASSERT_GE(at, last);
    ASSERT_LE(at % 80'000'000, 20'000'000);
    last = at;
  }
  EXPECT_NEAR(n / (static_cast<double>(last) / 1e9), 1000, 15);
}

TEST(ArrivalTimes, AnOverloadComesFirstAndThenTheWantedRate) {
  Arrivals arrivals;
  arrivals.kind = ArrivalKind::kOverload;
  arrivals.times = 4;
  arrivals.every = 500ms;
  ArrivalTimes times(arrivals, 1000, 1);
  for (int i = 1; i <= 2000; i++) ASSERT_EQ(times.Next(), i * 250'000);
  for (int i = 1; i <= 1000; i++) ASSERT_EQ(times.Next(), 500'000'000 + i * 1'000'000);
}

TEST(ArrivalTimes, JumpsAlternateBetweenTwoRates) {
  Arrivals arrivals;
  arrivals.kind = ArrivalKind::kJump;
  arrivals.low = 0.25;
  arrivals.every = 2s;
  ArrivalTimes times(arrivals, 1000, 1);
  int64_t at = 0;
  int low = 0, high = 0;
  while ((at = times.Next()) < 400'000'000'000) (at / 2'000'000'000 % 2 == 0 ? low : high)++;
  EXPECT_NEAR(low / 200.0, 250, 5);
  EXPECT_NEAR(high / 200.0, 1000, 10);
}

}  // namespace
}  // namespace spillway::sim
