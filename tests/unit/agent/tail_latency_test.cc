// SPDX-License-Identifier: Apache-2.0
#include "agent/learner/latency_sample.h"

#include <gtest/gtest.h>

namespace spillway::agent {
namespace {

constexpr double kSlotNs = 1e6;

class TailLatencyTest : public ::testing::Test {
 protected:
  // Looks every 10 ms for a second, with `per_look` answers each of which took `usual_ms`, but for one in 20,
  // which took `late_ms`.
  void Second(int per_look, double usual_ms, double late_ms) {
    for (int look = 0; look < 100; look++) Look(per_look, usual_ms, late_ms);
  }
  void Look(int answers, double usual_ms, double late_ms, uint32_t queue = 0, double elapsed_ns = 10e6) {
    const spw_meter_counts before = counts_;
    for (int i = 0; i < answers; i++) Answer(answers_++ % 20 == 0 ? late_ms : usual_ms);
    tail_.Learn(before, counts_, elapsed_ns, queue, kSlotNs);
  }
  double TailMs() const { return tail_.Ns() / 1e6; }

  TailLatency tail_;

 private:
  void Answer(double ms) {
    counts_.completed++;
    counts_.timed++;
    const auto steps = static_cast<uint32_t>(ms * 1e6) >> SPW_METER_STEP_SHIFT;
    counts_.histogram[spw_meter_histogram_index(steps)]++;
  }
  spw_meter_counts counts_{};
  int answers_ = 0;
};

TEST_F(TailLatencyTest, NothingKnownIsNone) { EXPECT_EQ(TailMs(), 0); }

TEST_F(TailLatencyTest, TheLatencyThatFewExceed) {
  Second(4, 1, 40);
  EXPECT_NEAR(TailMs(), 40, 5);
}

TEST_F(TailLatencyTest, WhatAnOverloadMadeOfItDoesNotOutlastTheOverload) {
  Second(3, 1, 2);
  Second(10, 30, 100);
  EXPECT_NEAR(TailMs(), 100, 13);
  Second(3, 1, 2);
  EXPECT_LT(TailMs(), 2.5);
}

// At 29 % load a look each 500 us finds the unit at work or idle, and never at 29 %.
TEST_F(TailLatencyTest, LooksInQuickSuccessionDoNotMakeAnOverload) {
  Second(10, 30, 100);
  for (int look = 0; look < 16'000; look++) Look(look % 7 == 0 ? 1 : 0, 1, 2, 0, 500e3);
  EXPECT_LT(TailMs(), 2.5);
  for (int look = 0; look < 15; look++) Look(10, 1, 1);  // what the overload taught is there yet
  EXPECT_GT(TailMs(), 50);
}

TEST_F(TailLatencyTest, WhatAnOverloadTaughtIsKnownWhenTheNextBegins) {
  Second(10, 30, 100);
  Second(3, 1, 2);
  for (int look = 0; look < 15; look++) Look(10, 1, 1);  // requests come, but have not waited long yet
  EXPECT_GT(TailMs(), 50);
}

TEST_F(TailLatencyTest, AQueueTellsAnOverloadBeforeTheSlotIsKnown) {
  Second(3, 1, 2);
  for (int look = 0; look < 100; look++) Look(3, 30, 100, 90);  // answers as rare as at a third of the load
  for (int look = 0; look < 50; look++) Look(0, 1, 1);
  Second(3, 1, 2);
  EXPECT_LT(TailMs(), 2.5);
}

TEST_F(TailLatencyTest, AnswersThatAreStillLateWhenTheLoadFellAreTheOverloads) {
  Second(3, 1, 2);
  Second(10, 30, 100);
  for (int look = 0; look < 20; look++) Look(4, 30, 100);
  Second(3, 1, 2);
  EXPECT_LT(TailMs(), 2.5);
}

// At 48 % the load is read as less than half, and most answers come after a look or two with more.
TEST_F(TailLatencyTest, CloseToALevelsBoundTheLastOverloadIsForgottenAsWell) {
  Second(3, 1, 2);
  Second(4, 30, 100);
  Second(10, 30, 100);
  Second(4, 30, 100);
  for (int second = 0; second < 5; second++)
    for (int look = 0; look < 100; look++) {
      Look(look % 5 == 0 ? 8 : 4, 1, 2);
      if (second == 4) EXPECT_LT(TailMs(), 2.5);
    }
}

TEST_F(TailLatencyTest, ALevelWithFewAnswersGoesByTheNext) {
  Second(10, 30, 100);
  for (int look = 0; look < 100; look++) Look(0, 1, 1);
  EXPECT_NEAR(TailMs(), 100, 13);
}

}  // namespace
}  // namespace spillway::agent
