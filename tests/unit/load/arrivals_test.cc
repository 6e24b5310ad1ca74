// SPDX-License-Identifier: Apache-2.0
#include "lab/load/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>

namespace spillway::load {
namespace {

TEST(Arrivals, AtAConstantRateKeepEqualGapsAndDoNotDrift) {
  Arrivals arrivals(Process::kConstant, 3, 1);
  std::int64_t at = 0;
  for (int i = 1; i <= 3'000'000; ++i) at = arrivals.NextNs();
  EXPECT_EQ(at, 1'000'000'000'000'000);
}

TEST(Arrivals, OfPoissonHaveExponentialGaps) {
  Arrivals arrivals(Process::kPoisson, 1000, 1);
  constexpr int kCount = 1'000'000;
  std::int64_t last = 0;
  double sum = 0, squares = 0;
  int beyond_mean = 0;
  for (int i = 0; i < kCount; ++i) {
    const std::int64_t at = arrivals.NextNs();
    ASSERT_GE(at, last);
    const double gap = static_cast<double>(at - last) / 1e6;  // ms; mean 1
    last = at;
    sum += gap;
    squares += gap * gap;
    beyond_mean += gap > 1;
  }
  // Standard errors are 0.001, 0.003 and 0.0005; five of each.
  EXPECT_NEAR(sum / kCount, 1, 0.005);
  EXPECT_NEAR(squares / kCount, 2, 0.025);
  EXPECT_NEAR(static_cast<double>(beyond_mean) / kCount, std::exp(-1), 0.0025);
}

TEST(Arrivals, InBurstsKeepTheRateAndPauseForAsLongAsTheyLast) {
  Arrivals arrivals(Process::kBursty, 1000, 1);
  constexpr int kCount = 1'000'000;
  std::int64_t at = 0;
  for (int i = 0; i < kCount; ++i) {
    at = arrivals.NextNs();
    ASSERT_LT(at % (2 * kBurstNs), kBurstNs) << "none in a pause";
  }
  // The sum of a million exponential gaps scatters by 0.1 %; five of that.
  EXPECT_NEAR(static_cast<double>(at) / 1e9, 1000, 5);
}

TEST(Arrivals, RepeatForTheSameSeed) {
  Arrivals a(Process::kPoisson, 10, 4), b(Process::kPoisson, 10, 4), c(Process::kPoisson, 10, 5);
  const std::int64_t first = a.NextNs();
  EXPECT_EQ(first, b.NextNs());
  EXPECT_NE(first, c.NextNs());
}

}  // namespace
}  // namespace spillway::load
