// SPDX-License-Identifier: Apache-2.0
#include "agent/learner/latency_sample.h"

#include <gtest/gtest.h>

#include "bpf/meter.h"

namespace spillway::agent {
namespace {

class Counts {
 public:
  void Add(uint64_t ns, uint32_t count) {
    counts_.histogram[spw_meter_histogram_index(spw_meter_step(ns))] += count;
    counts_.timed += count;
  }
  operator const spw_meter_counts&() const { return counts_; }

 private:
  spw_meter_counts counts_{};
};

LatencySample SampleOf(uint64_t ns, uint32_t count) {
  Counts counts;
  counts.Add(ns, count);
  LatencySample sample;
  sample.Add({}, counts);
  return sample;
}

TEST(LatencySample, ByHowMuchTheLongerOnesExceedATime) {
  Counts counts;
  counts.Add(1'000'000, 1000);
  counts.Add(20'000'000, 4);
  counts.Add(40'000'000, 4);
  counts.Add(5'000'000'000, 4);
  LatencySample sample;
  sample.Add({}, counts);
  EXPECT_NEAR(sample.MeanBeyond(10e6, 100e6, 3), 20e6, 3e6);
  EXPECT_NEAR(sample.MeanBeyond(30e6, 100e6, 3), 10e6, 3e6);
  EXPECT_EQ(sample.MeanBeyond(30e6, 100e6, 5), 0) << "too few";
  EXPECT_EQ(sample.MeanBeyond(60e6, 100e6, 1), 0) << "none but those that are longer than both";
}

TEST(LatencySample, WhatFadedCountsForLess) {
  LatencySample sample = SampleOf(40'000'000, 1000);
  sample.Fade(0.01);
  EXPECT_NEAR(sample.count(), 10, 1e-9);
  EXPECT_NEAR(sample.MeanBeyond(10e6, 100e6, 9), 30e6, 3e6);
  EXPECT_EQ(sample.MeanBeyond(10e6, 100e6, 11), 0) << "too few are left";
  sample.Add(SampleOf(1'000'000, 30));
  EXPECT_NEAR(sample.count(), 40, 1e-9);
  EXPECT_NEAR(sample.Quantile(0.7), 1e6, 0.13e6);
  EXPECT_NEAR(sample.Quantile(0.8), 40e6, 5e6);
}

TEST(LatencySample, OneThatFadedIsAddedAsWhatIsLeft) {
  LatencySample faded = SampleOf(40'000'000, 1000);
  faded.Fade(0.01);
  LatencySample sum = SampleOf(1'000'000, 60);
  sum.Fade(0.5);
  sum.Add(faded);
  EXPECT_NEAR(sum.count(), 40, 1e-9);
  EXPECT_NEAR(sum.Quantile(0.7), 1e6, 0.13e6);
  EXPECT_NEAR(sum.Quantile(0.8), 40e6, 5e6);
}

TEST(LatencySample, FadesHoweverOften) {
  LatencySample sample = SampleOf(40'000'000, 1000);
  Counts before, after;
  for (int i = 0; i < 100'000; i++) {
    after.Add(1'000'000, 1);
    sample.Fade(0.9);
    sample.Add(before, after);
    before = after;
  }
  EXPECT_NEAR(sample.count(), 10, 1e-6) << "1 + 0.9 + 0.81 + ...";
  EXPECT_NEAR(sample.Quantile(0.99), 1e6, 0.13e6);
  sample.Fade(0);
  EXPECT_EQ(sample.count(), 0);
  EXPECT_EQ(sample.Quantile(0.5), 0);
  sample.Add(SampleOf(1'000'000, 30));
  EXPECT_NEAR(sample.count(), 30, 1e-9);
}

}  // namespace
}  // namespace spillway::agent
