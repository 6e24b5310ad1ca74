// SPDX-License-Identifier: Apache-2.0
// The learner on simulated units whose truth is known: P4Mite's applications (figure 5).
#include "agent/service_learner.h"

#include <gtest/gtest.h>

#include "unit_model.h"

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;

constexpr UnitSpec kDnsCpu{"dns cpu", 1, 0.436, 2.564}, kDnsNic{"dns nic", 1, 2.182, 0.818},
    kVggCpu{"vgg16 cpu", 4, 68.6, 11.4}, kVggNic{"vgg16 nic", 1, 85.7, 34.3},
    kKnnCpu{"knn cpu", 4, 210.5, 29.5}, kKnnNic{"knn nic", 4, 800, 40};
constexpr UnitSpec kUnits[] = {kDnsCpu, kDnsNic, kVggCpu, kVggNic, kKnnCpu, kKnnNic};

double BaseMs(const ServiceLearner& learner) { return learner.learnt().base_us / 1e3; }
double SpanMs(const ServiceLearner& learner) { return learner.learnt().span_us / 1e3; }
double SlotMs(const ServiceLearner& learner) { return learner.learnt().slot_ns / 1e6; }

// value within [low, high] of truth.
#define EXPECT_RATIO(value, truth, low, high)                \
  do {                                                       \
    const double ratio = (value) / (truth);                  \
    EXPECT_TRUE(ratio >= (low) && ratio <= (high)) << ratio; \
  } while (0)

struct LookCase {
  UnitSpec spec;
  double look_ms;
};
void PrintTo(const LookCase& c, std::ostream* out) { *out << c.spec.name << ", look " << c.look_ms << " ms"; }

class EveryUnit : public ::testing::TestWithParam<LookCase> {
 protected:
  ServiceLearner learner_;
  UnitModel unit_{GetParam().spec, GetParam().look_ms, &learner_, 1};
};

std::vector<LookCase> Cases() {
  std::vector<LookCase> cases;
  for (const UnitSpec& spec : kUnits)
    for (const double look_ms : {20.0, 5.0}) cases.push_back({spec, look_ms});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(ServiceLearner, EveryUnit, ::testing::ValuesIn(Cases()));

TEST_P(EveryUnit, BaseIsRightAfterAHundredAnswersAtLowLoadAndSlotIsBoundedFromAbove) {
  for (const int answers : {100, 900}) {
    unit_.Serve(answers, 0.15);
    EXPECT_RATIO(BaseMs(learner_), unit_.p90_ms(), 0.85, 1.15);
    EXPECT_GE(SlotMs(learner_), unit_.slot_ms() * 0.9);
    EXPECT_LE(SlotMs(learner_), unit_.unqueued_ms() * 1.1) << "at least one worker";
  }
}

TEST_P(EveryUnit, FromSixtyPercentLoadOnSlotIsKnown) {
  for (const double load : {0.6, 0.7, 0.8, 0.9}) {
    SCOPED_TRACE(load);
    ServiceLearner learner;
    UnitModel unit(GetParam().spec, GetParam().look_ms, &learner, 3);
    unit.Serve(3000, load);
    EXPECT_RATIO(SlotMs(learner), unit.slot_ms(), 0.85, 1.3);
    // An agent that has only ever seen a high load cannot know better.
    EXPECT_RATIO(BaseMs(learner), unit.p90_ms(), 0.75, 1.7);
  }
}

TEST_P(EveryUnit, WithConstantArrivalsNothingWaitsSoSlotIsOnlyTheQuickestRateSeen) {
  for (const double load : {0.3, 0.6, 0.8}) {
    SCOPED_TRACE(load);
    ServiceLearner learner;
    UnitModel unit(GetParam().spec, GetParam().look_ms, &learner, 3);
    unit.Serve(2000, load, /*poisson=*/false);
    EXPECT_RATIO(BaseMs(learner), unit.p90_ms(), 0.6, 1.2);
    EXPECT_GE(SlotMs(learner), unit.slot_ms() * 0.9);
    EXPECT_LE(SlotMs(learner), unit.slot_ms() / load * 1.1);
  }
}

TEST_P(EveryUnit, KeepsBaseAndSlotThroughRisingAndFallingLoad) {
  unit_.Serve(1000, 0.2);
  unit_.Serve(1000, 0.5);
  for (const double load : {0.8, 0.95, 1.2, 0.8, 0.3}) {
    SCOPED_TRACE(load);
    unit_.Serve(1000, load);
    EXPECT_RATIO(SlotMs(learner_), unit_.slot_ms(), 0.92, 1.08);
    EXPECT_RATIO(BaseMs(learner_), unit_.p90_ms(), 0.85, 1.2);
    EXPECT_RATIO(SpanMs(learner_), unit_.unqueued_ms(), 0.85, 1.15);
  }
}

TEST_P(EveryUnit, OverloadDoesNotTeachBase) {
  unit_.Serve(2000, 0.7);
  const double before = BaseMs(learner_);
  unit_.Serve(2000, 1.3);  // the last of them waits for hundreds of slots
  EXPECT_RATIO(BaseMs(learner_), before, 0.9, 1.15);
  EXPECT_RATIO(SlotMs(learner_), unit_.slot_ms(), 0.95, 1.05);
}

TEST_P(EveryUnit, AgentStartedInOverloadForgetsItWhenTheLoadFalls) {
  unit_.Serve(1000, 1.1);
  EXPECT_RATIO(SlotMs(learner_), unit_.slot_ms(), 0.9, 1.1);
  unit_.Serve(3000, 0.6);
  EXPECT_RATIO(BaseMs(learner_), unit_.p90_ms(), 0.8, 1.2);
  EXPECT_RATIO(SlotMs(learner_), unit_.slot_ms(), 0.9, 1.15);
}

TEST_P(EveryUnit, HalfTheSpeedWhileFullShowsWithinSomeHundredAnswers) {
  unit_.Serve(2000, 0.8);
  unit_.Slow(2);
  unit_.Serve(500, 1.2);
  EXPECT_RATIO(SlotMs(learner_), unit_.slot_ms(), 0.85, 1.1);
  unit_.Serve(3000, 0.3);
  EXPECT_RATIO(BaseMs(learner_), unit_.p90_ms(), 0.85, 1.2);
}

TEST_P(EveryUnit, HalfTheSpeedAtLowLoadShowsInBaseAndSlotIsTakenToFollow) {
  unit_.Serve(2000, 0.8);
  unit_.Serve(1500, 0.2);
  unit_.Slow(2);
  unit_.Serve(1000, 0.4);
  EXPECT_RATIO(BaseMs(learner_), unit_.p90_ms(), 0.7, 1.6);
  // Where latency is service; where it is not, the next high load will show.
  if (unit_.slot_ms() * GetParam().spec.workers > 0.8 * unit_.unqueued_ms())
    EXPECT_RATIO(SlotMs(learner_), unit_.slot_ms(), 0.7, 1.2);
}

TEST_P(EveryUnit, TwiceTheSpeedShowsAtTheNextHighLoad) {
  unit_.Serve(2000, 0.8);
  unit_.Slow(0.5);
  unit_.Serve(1500, 0.8);
  EXPECT_RATIO(SlotMs(learner_), unit_.slot_ms(), 0.9, 1.3);
  EXPECT_RATIO(BaseMs(learner_), unit_.p90_ms(), 0.8, 1.45);
}

TEST_P(EveryUnit, RestAndAStallTeachNothing) {
  unit_.Serve(2000, 0.8);
  unit_.Serve(1000, 0.4);
  const double base = BaseMs(learner_), slot = SlotMs(learner_);
  unit_.Rest(20'000);
  EXPECT_RATIO(BaseMs(learner_), base, 0.95, 1.05);
  EXPECT_RATIO(SlotMs(learner_), slot, 0.95, 1.05);
  for (int i = 0; i < 20; i++) unit_.Arrive();
  unit_.Rest(10'000, /*frozen=*/true);
  unit_.Serve(100, 0.3);
  EXPECT_RATIO(BaseMs(learner_), base, 0.85, 1.25);
  EXPECT_RATIO(SlotMs(learner_), slot, 0.8, 1.4);
}

TEST_P(EveryUnit, SlotBearsServicesThatDoNotVaryOrVaryAsMuchAsTheirMean) {
  for (const double variation : {0.0, 1.0}) {
    SCOPED_TRACE(variation);
    UnitSpec spec = GetParam().spec;
    spec.variation = variation;
    ServiceLearner learner;
    UnitModel unit(spec, GetParam().look_ms, &learner, 5);
    unit.Serve(500, 0.3);
    unit.Serve(2000, 0.9);
    EXPECT_RATIO(SlotMs(learner), unit.slot_ms(), 0.85, 1.3);
    EXPECT_LE(BaseMs(learner), unit.p90_ms() * 1.3);
    EXPECT_GE(BaseMs(learner), unit.unqueued_ms() * 0.4);
  }
}

TEST(ServiceLearner, AQuotaOfCpuTimeIsPartOfTheSlot) {
  // At full speed for 1 ms of every 5: one or two answers, then nothing.
  constexpr UnitSpec kQuota{"quota", 1, 0.6, 0.05, 0.2, 1, 5};
  ServiceLearner learner;
  UnitModel unit(kQuota, 5, &learner, 3);
  unit.Serve(1500, 0.2);
  unit.Serve(1500, 0.5);
  for (const double load : {0.8, 0.95, 1.1, 0.8}) {
    SCOPED_TRACE(load);
    unit.Serve(1500, load);
    EXPECT_RATIO(SlotMs(learner), unit.slot_ms(), 0.9, 1.2);
    EXPECT_LE(BaseMs(learner), 2) << "what waits for the next period is queued";
  }
}

TEST(ServiceLearner, SaysNothingUntilSomeAnswersCame) {
  ServiceLearner learner;
  UnitModel unit(kDnsCpu, 20, &learner, 1);
  EXPECT_EQ(learner.learnt(), Learnt{});
  unit.Rest(1000);
  unit.Serve(5, 0.01);
  EXPECT_EQ(learner.learnt(), Learnt{});
  unit.Serve(40, 0.01);
  EXPECT_NEAR(SpanMs(learner), SlotMs(learner), 0.2) << "one at a time, for all we know";
  EXPECT_NEAR(BaseMs(learner), 3.1, 0.3);
}

TEST(ServiceLearner, WhatItIsToldIsWhereItStartsAndAFullUnitCorrectsIt) {
  ServiceLearner learner(/*workers=*/12);
  UnitModel unit(kKnnCpu, 20, &learner, 1);
  unit.Serve(50, 0.1);
  EXPECT_NEAR(SpanMs(learner) / SlotMs(learner), 12, 0.01);
  EXPECT_NEAR(SlotMs(learner), 240.0 / 12, 3);
  unit.Serve(1000, 1.2);
  EXPECT_NEAR(SlotMs(learner), unit.slot_ms(), 3);
}

TEST(ServiceLearner, LooksAtEveryAnswerTeachTheSame) {
  ServiceLearner learner;
  UnitModel unit(kKnnCpu, 1e9, &learner, 1);
  unit.Look();
  for (int i = 0; i < 3000; i++) {
    unit.Serve(1, 0.8);
    unit.Look();
  }
  EXPECT_RATIO(SlotMs(learner), unit.slot_ms(), 0.85, 1.2);
  EXPECT_RATIO(BaseMs(learner), unit.p90_ms(), 0.8, 1.25);
}

TEST(ServiceLearner, SlowerForGoodWithoutBeingFullIsBelievedInTheEnd) {
  ServiceLearner learner;
  UnitModel unit(kDnsCpu, 20, &learner, 1);
  unit.Serve(2000, 0.8);
  UnitSpec far = kDnsCpu;
  far.fixed_ms = 25;  // a back end far away: its latency queues nobody
  UnitModel moved(far, 20, &learner, 2);
  moved.Serve(300'000, 0.5);
  EXPECT_RATIO(BaseMs(learner), moved.p90_ms(), 0.9, 1.1);
}

TEST(ServiceLearner, OutlivesCountersThatStartAnewAndClocksThatStand) {
  ServiceLearner learner;
  UnitModel unit(kVggCpu, 20, &learner, 1);
  unit.Serve(2000, 0.8);
  const Learnt before = learner.learnt();
  learner.Look(1h, 3, spw_meter_counts{});
  EXPECT_EQ(learner.learnt(), before);
  learner.Look(1h, 3, unit.counts);
  learner.Look(1min, 3, unit.counts);
  EXPECT_EQ(learner.learnt(), before);
}

TEST(ServiceLearner, GarbageGivesPlausibleNumbers) {
  // Latencies of 0; a queue that no counter explains; answers that no arrival explains; the longest latency.
  for (const uint64_t latency_ns : {uint64_t{0}, uint64_t{1} << 40}) {
    ServiceLearner learner;
    spw_meter_counts counts{};
    for (int i = 1; i <= 5000; i++) {
      counts.completed += i % 7;
      counts.timed += i % 7;
      counts.latency_sum_ns += latency_ns * (i % 7);
      counts.histogram[spw_meter_histogram_index(spw_meter_step(latency_ns))] += i % 7;
      learner.Look(i * 1ms, i % 3 ? 0xffffffffu : 0, counts);
      const Learnt learnt = learner.learnt();
      if (learnt == Learnt{}) continue;
      ASSERT_GT(learnt.base_us, 0u);
      ASSERT_GT(learnt.slot_ns, 0u);
      ASSERT_GT(learnt.span_us, 0u);
    }
    EXPECT_NE(learner.learnt(), Learnt{});
  }
}

}  // namespace
}  // namespace spillway::agent
