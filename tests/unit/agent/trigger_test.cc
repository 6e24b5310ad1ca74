// SPDX-License-Identifier: Apache-2.0
#include "agent/trigger.h"

#include <gtest/gtest.h>

#include "agent/report_schedule.h"

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;

TriggerConfig At100ms() {
  TriggerConfig config;
  config.threshold = 100e6;
  return config;
}

Reading Measured(double ms, uint32_t queue) {
  Reading reading;
  reading.measure = ms * 1e6;
  reading.queue = queue;
  return reading;
}

Reading Silent(Duration stall, uint32_t queue) {
  Reading reading;
  reading.stall = stall;
  reading.queue = queue;
  return reading;
}

TEST(Trigger, TripsAtTheThresholdAndReleasesBelowTheRatio) {
  Trigger trigger(At100ms(), MeterKind::kLatency);
  EXPECT_FALSE(trigger.Update(0ms, Measured(99, 10)).busy);
  Verdict verdict = trigger.Update(1ms, Measured(100, 10));
  EXPECT_TRUE(verdict.busy);
  EXPECT_TRUE(verdict.changed);
  for (double ms : {99.0, 51.0, 120.0, 50.0}) {
    verdict = trigger.Update(2ms, Measured(ms, 10));
    EXPECT_TRUE(verdict.busy) << ms;
    EXPECT_FALSE(verdict.changed) << ms;
  }
  verdict = trigger.Update(3ms, Measured(49, 10));
  EXPECT_FALSE(verdict.busy);
  EXPECT_TRUE(verdict.changed);
  EXPECT_FALSE(trigger.Update(4ms, Measured(99, 10)).busy);
}

TEST(Trigger, LevelIs128AtTheThresholdAndSaturatesAtTwice) {
  Trigger trigger(At100ms(), MeterKind::kLatency);
  EXPECT_EQ(trigger.Update(0ms, Measured(0, 10)).level, 0);
  EXPECT_EQ(trigger.Update(0ms, Measured(50, 10)).level, 64);
  EXPECT_EQ(trigger.Update(0ms, Measured(100, 10)).level, 128);
  EXPECT_EQ(trigger.Update(0ms, Measured(150, 10)).level, 192);
  EXPECT_EQ(trigger.Update(0ms, Measured(200, 10)).level, 255);
  EXPECT_EQ(trigger.Update(0ms, Measured(5000, 10)).level, 255);
}

TEST(Trigger, OneSlowAnswerTrips) {
  Trigger trigger(At100ms(), MeterKind::kLatency);
  Reading reading = Measured(10, 10);
  reading.exceeded = true;
  const Verdict verdict = trigger.Update(0ms, reading);
  EXPECT_TRUE(verdict.busy);
  EXPECT_EQ(verdict.level, 128);
  EXPECT_FALSE(trigger.Update(1ms, Measured(10, 10)).busy);
}

TEST(Trigger, UnitThatAnswersNothingIsBusy) {
  Trigger trigger(At100ms(), MeterKind::kLatency);
  EXPECT_FALSE(trigger.Update(0ms, Silent(100ms, 3)).busy);
  EXPECT_EQ(trigger.Update(0ms, Silent(100ms, 3)).level, 128);
  EXPECT_TRUE(trigger.Update(1ms, Silent(101ms, 3)).busy);
  EXPECT_TRUE(trigger.Update(2ms, Silent(5s, 1)).busy) << "a short queue is no release while it stalls";
  EXPECT_EQ(trigger.Update(2ms, Silent(5s, 1)).level, 255);
  EXPECT_FALSE(trigger.Update(3ms, Silent(0ms, 0)).busy) << "its requests were given up";
}

TEST(Trigger, DrainedUnitIsAvailableWithoutNewMeasurements) {
  Trigger trigger(At100ms(), MeterKind::kLatency);
  ASSERT_TRUE(trigger.Update(0ms, Measured(300, 40)).busy);
  EXPECT_TRUE(trigger.Update(1ms, Silent(5ms, 2)).busy);
  const Verdict verdict = trigger.Update(2ms, Silent(5ms, 1));
  EXPECT_FALSE(verdict.busy);
  EXPECT_EQ(trigger.Update(3ms, Silent(0ms, 0)).level, 0);
}

TEST(Trigger, QueueTripsBeforeLatencyShows) {
  TriggerConfig config = At100ms();
  config.queue_high = 8;
  Trigger trigger(config, MeterKind::kLatency);
  EXPECT_FALSE(trigger.Update(0ms, Measured(1, 8)).busy);
  EXPECT_TRUE(trigger.Update(1ms, Measured(1, 9)).busy);
  EXPECT_FALSE(trigger.Update(2ms, Measured(1, 8)).busy);
}

TEST(Trigger, PulseEndsByItselfAndNeedsNewEvidence) {
  TriggerConfig config = At100ms();
  config.second_report_after = 5ms;
  Trigger trigger(config, MeterKind::kLatency);
  EXPECT_FALSE(trigger.EndPulse(0ms));
  ASSERT_TRUE(trigger.Update(10ms, Measured(300, 40)).changed);
  ASSERT_EQ(trigger.pulse_end(), 15ms);
  EXPECT_TRUE(trigger.Update(12ms, Measured(300, 40)).busy);
  EXPECT_FALSE(trigger.EndPulse(14ms));
  const auto ended = trigger.EndPulse(15ms);
  ASSERT_TRUE(ended);
  EXPECT_FALSE(ended->busy);
  EXPECT_TRUE(ended->changed);
  EXPECT_FALSE(trigger.pulse_end());
  EXPECT_FALSE(trigger.Update(16ms, Silent(1ms, 40)).busy);
  EXPECT_TRUE(trigger.Update(17ms, Measured(300, 40)).busy);
}

TEST(Trigger, CpuShareKnowsNoQueue) {
  TriggerConfig config;
  config.threshold = 0.8;
  Trigger trigger(config, MeterKind::kCpu);
  Reading reading;
  reading.measure = 0.8;
  EXPECT_TRUE(trigger.Update(0ms, reading).busy);
  reading.measure = std::nullopt;  // too soon to tell
  Verdict verdict = trigger.Update(1ms, reading);
  EXPECT_TRUE(verdict.busy);
  EXPECT_EQ(verdict.level, 128);
  reading.measure = 0.39;
  EXPECT_FALSE(trigger.Update(2ms, reading).busy);
}

TEST(ReportSchedule, PeriodicReportsAtEachRegularLookAndAtNews) {
  ReportConfig config;
  ReportSchedule schedule(config);
  EXPECT_TRUE(schedule.Due(0ms, false, false)) << "the first";
  schedule.Sent(0ms);
  EXPECT_FALSE(schedule.Due(19ms, false, false));
  EXPECT_TRUE(schedule.Due(19ms, false, true));
  // Looks are late by more or less.
  for (const auto look : {20100us, 40020us, 60090us, 80010us}) {
    EXPECT_TRUE(schedule.Due(look, true, false));
    schedule.Sent(look);
  }
}

TEST(ReportSchedule, OnThresholdBeatsOnceASecond) {
  ReportConfig config;
  config.mode = ReportMode::kOnThreshold;
  ReportSchedule schedule(config);
  schedule.Sent(0ms);
  EXPECT_FALSE(schedule.Due(999ms, true, false));
  EXPECT_TRUE(schedule.Due(999ms, false, true));
  EXPECT_TRUE(schedule.Due(1s, true, false));
}

}  // namespace
}  // namespace spillway::agent
