// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/latency_meter.h"

#include <gtest/gtest.h>

#include <cmath>

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;

class LatencyWindowTest : public ::testing::Test {
 protected:
  void Answered(uint64_t count, Duration each) {
    totals_.counts.completed += count;
    totals_.counts.timed += count;
    totals_.counts.latency_sum_ns += count * static_cast<uint64_t>(each.count());
  }
  Reading Look(Time now) { return window_.Update(now, totals_); }

  MeterTotals totals_;
  LatencyWindow window_{100ms};
};

TEST_F(LatencyWindowTest, NoAnswersNoMeasure) {
  EXPECT_FALSE(Look(0ms).measure);
  EXPECT_FALSE(Look(20ms).measure);
}

TEST_F(LatencyWindowTest, FirstAnswersSetTheMeasureAndLaterOnesMoveIt) {
  Look(0ms);
  Answered(10, 40ms);
  EXPECT_DOUBLE_EQ(*Look(20ms).measure, 40e6);
  Answered(10, 80ms);
  const double moved = *Look(40ms).measure;
  EXPECT_NEAR(moved, 40e6 + 40e6 * (1 - std::exp(-0.2)), 1);
  EXPECT_FALSE(Look(60ms).measure) << "nothing fresh";
  Answered(1, 10ms);
  EXPECT_NEAR(*Look(10s).measure, 10e6, 1e3) << "the old measure has aged away";
}

TEST_F(LatencyWindowTest, StallNeedsBothAnOldRequestAndSilence) {
  Look(0ms);
  totals_.pending = 5;
  totals_.oldest = 300ms;
  Answered(1, 10ms);
  EXPECT_EQ(Look(1000ms).stall, 0ms) << "it answers, if not this one";
  EXPECT_EQ(Look(1050ms).stall, 50ms);
  totals_.oldest = 20ms;
  EXPECT_EQ(Look(1100ms).stall, 20ms) << "nothing was owed before";
  totals_.pending = 0;
  totals_.oldest = 0ms;
  EXPECT_EQ(Look(2000ms).stall, 0ms);
}

TEST_F(LatencyWindowTest, ExceededMeansSinceTheLastLook) {
  totals_.counts.over_threshold = 7;
  EXPECT_FALSE(Look(0ms).exceeded);
  totals_.counts.over_threshold = 8;
  EXPECT_TRUE(Look(20ms).exceeded);
  EXPECT_FALSE(Look(40ms).exceeded);
}

TEST_F(LatencyWindowTest, RateFollowsArrivals) {
  Look(0s);
  for (int i = 1; i <= 500; i++) {
    totals_.counts.arrivals += 1000;
    Look(i * 20ms);
  }
  EXPECT_NEAR(window_.rate(), 50000, 100);
}

}  // namespace
}  // namespace spillway::agent
