// SPDX-License-Identifier: Apache-2.0
#include "report/percentile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace spillway::report {
namespace {

// The definition, by counting: the smallest sample s with count(x <= s) * 1000 >= per_mille * n.
double Reference(const std::vector<double>& samples, long per_mille) {
  double best = INFINITY;
  for (double candidate : samples) {
    long at_most = 0;
    for (double x : samples) at_most += x <= candidate;
    if (at_most * 1000 >= per_mille * static_cast<long>(samples.size())) best = std::min(best, candidate);
  }
  return best;
}

TEST(Percentile, AgreesWithCountingOnRandomSamplesWithTies) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    std::vector<double> samples(1 + random() % 300);
    for (double& x : samples) x = static_cast<double>(random() % 50);
    for (long per_mille : {0L, 1L, 10L, 250L, 500L, 900L, 990L, 999L, 1000L}) {
      EXPECT_EQ(PercentileOf(samples, static_cast<double>(per_mille) / 10), Reference(samples, per_mille))
          << per_mille << " of " << samples.size();
    }
  }
}

TEST(Percentile, TakesTheExactRankWhereTheProductRoundsUp) {
  std::vector<double> samples;
  for (int i = 1; i <= 1000; ++i) samples.push_back(i);
  EXPECT_EQ(Percentile(samples, 99.9), 999);
  EXPECT_EQ(Percentile(samples, 99), 990);
  EXPECT_EQ(Percentile(samples, 50), 500);
}

TEST(Percentile, HasNoAnswerWithoutSamples) {
  EXPECT_TRUE(std::isnan(PercentileOf({}, 50)));
  EXPECT_TRUE(std::isnan(Median({})));
  EXPECT_EQ(SpreadOf({}).count, 0u);
}

TEST(Median, IsTheMiddleOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(Median({5, 1, 3}), 3);
  EXPECT_EQ(Median({8, 1, 3, 2}), 2.5);
  EXPECT_EQ(Median({4}), 4);
}

TEST(Spread, TellsHowFarTheRoundsLayApart) {
  const Spread spread = SpreadOf({3, 9, 4});
  EXPECT_EQ(spread.count, 3u);
  EXPECT_EQ(spread.min, 3);
  EXPECT_EQ(spread.median, 4);
  EXPECT_EQ(spread.max, 9);
}

}  // namespace
}  // namespace spillway::report
