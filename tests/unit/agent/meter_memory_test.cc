// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/meter_memory.h"

#include <gtest/gtest.h>

namespace spillway::agent {
namespace {

TEST(Histogram, EveryValueLiesInItsBucketWithinAnEighth) {
  uint32_t last = 0;
  for (uint64_t value = 0; value < 1u << 27; value = value < 4096 ? value + 1 : value + value / 31) {
    const uint32_t index = spw_meter_histogram_index(static_cast<uint32_t>(value));
    ASSERT_LT(index, SPW_METER_HISTOGRAM) << value;
    ASSERT_GE(index, last) << value;
    last = index;
    const uint64_t low = spw_meter_histogram_floor(index), high = spw_meter_histogram_floor(index + 1);
    ASSERT_LE(low, value);
    ASSERT_GT(high, value);
    ASSERT_TRUE(high - low <= 1 || (high - low) * 8 <= low) << value;
  }
  EXPECT_EQ(spw_meter_histogram_index(0xffffffff), SPW_METER_HISTOGRAM - 1u);
}

TEST(Histogram, QuantilesOfADifference) {
  spw_meter_counts before{}, after{};
  EXPECT_EQ(Quantile(before, after, 0.5), 0u);
  before.histogram[spw_meter_histogram_index(10)] = after.histogram[spw_meter_histogram_index(10)] = 1000;
  after.histogram[spw_meter_histogram_index(1000)] = 99;
  after.histogram[spw_meter_histogram_index(100000)] = 1;
  EXPECT_NEAR(static_cast<double>(Quantile(before, after, 0.5)), 1000 * 1024, 0.07 * 1000 * 1024);
  EXPECT_NEAR(static_cast<double>(Quantile(before, after, 0.999)), 100000 * 1024., 0.07 * 100000 * 1024);
}

TEST(Sampling, TimesAllWhenFewAndThousandsWhenMany) {
  EXPECT_EQ(SampleMask(0), 0u);
  EXPECT_EQ(SampleMask(8191), 0u);
  EXPECT_EQ(SampleMask(8192), 1u);
  EXPECT_EQ(SampleMask(50'000), 7u);
  EXPECT_EQ(SampleMask(1e12), 1023u);
}

TEST(Collect, SumsCpusAndKeepsTheLeastLatency) {
  spw_meter_config config{};
  spw_meter_shared shared{};
  spw_meter_clocks clocks{};
  spw_meter_counts counts[3]{};
  counts[0].arrivals = 3, counts[1].arrivals = 4;
  counts[2].completed = 2, counts[1].abandoned = 1;
  shared.given_up = 1;
  counts[0].latency_min_ns = 500, counts[1].latency_min_ns = 200;
  counts[1].histogram[9] = 2, counts[2].histogram[9] = 1;
  spw_meter_bucket bucket{};
  const MeterTotals totals = Collect({&config, &shared, &clocks, counts, {&bucket, 1}}, Time{1});
  EXPECT_EQ(totals.counts.arrivals, 7u);
  EXPECT_EQ(totals.counts.latency_min_ns, 200u);
  EXPECT_EQ(totals.counts.histogram[9], 3u);
  EXPECT_EQ(totals.pending, 3u);
  EXPECT_EQ(totals.cpus, 1) << "one CPU has all the answers";
}

TEST(Collect, CpusAreThoseThatShareTheAnswers) {
  spw_meter_config config{};
  spw_meter_shared shared{};
  spw_meter_clocks clocks{};
  spw_meter_counts counts[4]{};
  const MeterMemory memory{&config, &shared, &clocks, counts, {}};
  EXPECT_EQ(Sum(memory).cpus, 1) << "no answer yet";
  for (spw_meter_counts& one : counts) one.completed = 500;
  EXPECT_DOUBLE_EQ(Sum(memory).cpus, 4);
  counts[3].completed = counts[2].completed = 0;
  EXPECT_DOUBLE_EQ(Sum(memory).cpus, 2);
  counts[1].completed = 5;
  EXPECT_NEAR(Sum(memory).cpus, 1.02, 0.01);
}

}  // namespace
}  // namespace spillway::agent
