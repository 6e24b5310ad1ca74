// SPDX-License-Identifier: Apache-2.0
// The learner on simulated units whose truth is known: P4Mite's applications (figure 5), and a CPU quota.
#include "agent/learner/outcome_learner.h"

#include <gtest/gtest.h>

#include <random>

#include "unit_model.h"

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;

constexpr UnitSpec kDnsCpu{"dns cpu", 1, 0.436, 2.564}, kDnsNic{"dns nic", 1, 2.182, 0.818},
    kVggCpu{"vgg16 cpu", 4, 68.6, 11.4}, kVggNic{"vgg16 nic", 1, 85.7, 34.3},
    kKnnCpu{"knn cpu", 4, 210.5, 29.5}, kKnnNic{"knn nic", 4, 800, 40};
constexpr UnitSpec kUnits[] = {kDnsCpu, kDnsNic, kVggCpu, kVggNic, kKnnCpu, kKnnNic};
// 20 ms of each 100: a fifth of a CPU.
constexpr UnitSpec kQuota{"quota", 1, 1, 0.1, 0.2, 20, 100};

double BaseMs(const OutcomeLearner& learner) { return learner.learnt().base_us / 1e3; }
double SlotMs(const OutcomeLearner& learner) { return learner.learnt().slot_ns / 1e6; }
double KneeMs(const OutcomeLearner& learner) { return learner.learnt().knee_us / 1e3; }
double BacklogMs(const OutcomeLearner& learner) { return learner.learnt().backlog_us / 1e3; }

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
  OutcomeLearner learner_;
  UnitModel unit_{GetParam().spec, GetParam().look_ms, &learner_, 1};
};

std::vector<LookCase> Cases() {
  std::vector<LookCase> cases;
  for (const UnitSpec& spec : kUnits)
    for (const double look_ms : {20.0, 5.0}) cases.push_back({spec, look_ms});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(OutcomeLearner, EveryUnit, ::testing::ValuesIn(Cases()));

TEST_P(EveryUnit, AtAThirdOfItsLoadBaseIsRightAndSlotIsBounded) {
  unit_.Serve(3000, 0.3);
  EXPECT_RATIO(BaseMs(learner_), unit_.unqueued_ms(), 0.9, 1.25);
  // Of workers that are hardly ever all busy the pace is that of few.
  EXPECT_GE(SlotMs(learner_), unit_.slot_ms() * 0.85);
  EXPECT_LE(SlotMs(learner_), unit_.unqueued_ms() * 1.1);
  EXPECT_GE(KneeMs(learner_), SlotMs(learner_) * 0.99) << "a request to an empty unit waits for nobody";
}

TEST_P(EveryUnit, FromSixtyPercentOnSlotIsKnown) {
  for (const double load : {0.6, 0.9}) {
    SCOPED_TRACE(load);
    OutcomeLearner learner;
    UnitModel unit(GetParam().spec, GetParam().look_ms, &learner, 3);
    unit.Serve(3000, load);
    EXPECT_RATIO(SlotMs(learner), unit.slot_ms(), 0.85, load < 0.7 ? 1.5 : 1.15);
    // Where hardly any request finds the unit empty, some waiting counts as base.
    EXPECT_RATIO(BaseMs(learner), unit.unqueued_ms(), 0.75, load < 0.7 ? 1.9 : 2.3);
    EXPECT_GE(KneeMs(learner), SlotMs(learner) * 0.99);
  }
}

// What all this is for.
TEST_P(EveryUnit, LatenciesArePredicted) {
  for (const double load : {0.3, 0.6, 0.9}) {
    SCOPED_TRACE(load);
    unit_.Serve(2000, load);
    (void)unit_.Judge();
    unit_.Serve(2000, load);
    const Predicted predicted = unit_.Judge();
    EXPECT_RATIO(predicted.predicted_ms, predicted.actual_ms, 0.85, 1.25);
  }
}

TEST_P(EveryUnit, OverloadIsPredictedAndForgottenWhenTheLoadFalls) {
  unit_.Serve(2000, 0.7);
  unit_.Serve(200, 1.3);
  (void)unit_.Judge();
  unit_.Serve(300, 1.3);  // the last of them waits for a hundred slots
  EXPECT_RATIO(SlotMs(learner_), unit_.slot_ms(), 0.85, 1.1);
  EXPECT_GE(BacklogMs(learner_), unit_.queue() * unit_.slot_ms() * 0.8);
  Predicted predicted = unit_.Judge();
  EXPECT_RATIO(predicted.predicted_ms, predicted.actual_ms, 0.75, 1.25);
  unit_.Serve(1500, 0.4);
  (void)unit_.Judge();
  unit_.Serve(500, 0.4);
  EXPECT_RATIO(BaseMs(learner_), unit_.unqueued_ms(), 0.8, 1.4);
  predicted = unit_.Judge();
  EXPECT_RATIO(predicted.predicted_ms, predicted.actual_ms, 0.85, 1.5);
}

TEST_P(EveryUnit, ThreeTimesAsSlowOrAsFastIsFollowed) {
  for (const double factor : {3.0, 1 / 3.0}) {
    SCOPED_TRACE(factor);
    OutcomeLearner learner;
    UnitModel unit(GetParam().spec, GetParam().look_ms, &learner, 3);
    unit.Serve(3000, 0.7);
    unit.Slow(factor);
    // Some thousand answers, and half a minute: quick units answer as many within a few seconds.
    unit.Serve(static_cast<uint64_t>(std::max(6000.0, 30'000 / unit.slot_ms() * 0.7)), 0.7);
    EXPECT_RATIO(SlotMs(learner), unit.slot_ms(), 0.85, 1.35);
    // What a unit that answers once a second is seldom seen to take while it is nearly empty is known from
    // before; as its knee is lower by as much, latencies are predicted all the same.
    EXPECT_RATIO(BaseMs(learner), unit.unqueued_ms(), unit.slot_ms() > 100 ? 0.3 : 0.6, 1.7);
    (void)unit.Judge();
    unit.Serve(500, 0.7);
    const Predicted predicted = unit.Judge();
    EXPECT_RATIO(predicted.predicted_ms, predicted.actual_ms, 0.9, 1.3);
  }
}

TEST_P(EveryUnit, AfterAStallTheBacklogCoversTheQueue) {
  unit_.Serve(2000, 0.6);
  for (int i = 0; i < 20; i++) unit_.Arrive();
  unit_.Look();
  unit_.Rest(10'000, /*frozen=*/true);  // time passes, and by the clocks all would be done
  EXPECT_GE(unit_.queue(), 20u);
  EXPECT_GE(BacklogMs(learner_), unit_.queue() * SlotMs(learner_) * 0.999);
  unit_.Serve(6000, 0.6);
  EXPECT_RATIO(SlotMs(learner_), unit_.slot_ms(), 0.85, 1.5);  // a stall is no pace for good
  unit_.Rest(5000);
  EXPECT_EQ(unit_.queue(), 0u);
  EXPECT_LE(BacklogMs(learner_), 32 * SlotMs(learner_)) << "whatever the clock says, the unit is empty";
}

// 40 ms, twice a second or so: as long as it has stood still before, so long it will again.
TEST(OutcomeLearner, AUnitThatStandsStillHasTheRestOfItAsBacklog) {
  OutcomeLearner learner;
  UnitModel unit({"", 1, 1, 0.1}, 5, &learner, 1);
  const auto stand_still = [&](double ms) {
    unit.Arrive();
    unit.Look();
    unit.Rest(ms, /*frozen=*/true);
  };
  unit.Serve(2000, 0.3);
  stand_still(40);
  EXPECT_LE(BacklogMs(learner), unit.queue() * SlotMs(learner) + 1) << "never seen, so not predicted";
  for (int i = 0; i < 30; i++) {
    unit.Serve(150, 0.3);
    stand_still(40);
  }
  unit.Serve(150, 0.3);
  stand_still(4);
  EXPECT_LE(BacklogMs(learner), unit.queue() * SlotMs(learner) + 1) << "no longer than many take";
  stand_still(11);
  EXPECT_GE(BacklogMs(learner), 10) << "of 40 ms, some 25 are left";
  EXPECT_LE(BacklogMs(learner), 60);
  for (int i = 0; i < 5; i++) {
    unit.Serve(150, 0.3);
    stand_still(1000);
  }
  unit.Serve(150, 0.3);
  stand_still(200);
  EXPECT_LE(BacklogMs(learner), unit.queue() * SlotMs(learner) + 1);
}

// What the accounts of a quota say (ration.h) is told the switch, and nothing is learnt from it.
TEST(OutcomeLearner, AQuotaUsedUpIsBacklogAndAScarceOneALongerSlotAndAPrice) {
  OutcomeLearner learner;
  UnitModel unit({"", 1, 1, 0.1}, 5, &learner, 1);
  unit.Serve(3000, 0.5);
  const Learnt before = learner.learnt();
  unit.rationed = {.refill_ns = 60e6};
  unit.Rest(6);  // a look
  EXPECT_GE(BacklogMs(learner), 60);
  EXPECT_EQ(learner.learnt().slot_ns, before.slot_ns) << "nothing is scarce";
  unit.rationed = {.price_ns = 7e6, .slot_ns = 5e6};
  unit.Rest(6);  // a look
  EXPECT_EQ(learner.learnt().price_us, 7000u);
  EXPECT_NEAR(SlotMs(learner), 5, 0.02);
  EXPECT_NEAR(KneeMs(learner), before.knee_us / 1e3 + 5 - before.slot_ns / 1e6, 0.02)
      << "a lone request waits for nobody";
  unit.rationed = {};
  unit.Rest(6);  // a look
  EXPECT_EQ(learner.learnt().base_us, before.base_us);
  EXPECT_EQ(learner.learnt().slot_ns, before.slot_ns);
  EXPECT_LT(BacklogMs(learner), 20);
}

// A request that takes fifty times as long as the others keeps one of four workers.
TEST(OutcomeLearner, OneLongRequestIsNoStandstillOfAUnitWithWorkersToSpare) {
  OutcomeLearner learner(4);
  UnitModel unit({"", 4, 1, 0.1}, 5, &learner, 1);
  const auto stand_still = [&](int requests, double ms) {
    unit.Serve(150, 0.2);
    unit.Rest(20);
    for (int i = 0; i < requests; i++) unit.Arrive();
    unit.Look();
    unit.Rest(ms, /*frozen=*/true);
  };
  for (int i = 0; i < 60; i++) stand_still(1, 40);
  stand_still(1, 16);
  EXPECT_LE(BacklogMs(learner), unit.queue() * SlotMs(learner) + 1);
  stand_still(2, 16);
  EXPECT_GE(BacklogMs(learner), 10) << "of 40 ms, some 25 are left";
}

// A long poll, say: between the others' answers and the next request nothing stands still.
TEST(OutcomeLearner, ARequestThatIsNotAnsweredIsNoStandstillWhileOthersAre) {
  OutcomeLearner learner;
  UnitModel unit({"", 1, 1, 0.1}, 5, &learner, 1);
  for (int i = 0; i < 30; i++) {
    unit.Serve(150, 0.3);
    unit.Arrive();
    unit.Rest(70, /*frozen=*/true);
  }
  unit.ArriveForGood();
  unit.Serve(20, 0.03);
  for (int i = 0; i < 500; i++) {
    unit.Serve(1, 0.03);
    unit.Look();
    EXPECT_LE(BacklogMs(learner), unit.queue() * SlotMs(learner) + 5) << i;
    unit.Rest(30);  // the next comes later
    EXPECT_LE(BacklogMs(learner), unit.queue() * SlotMs(learner) + 5) << i;
  }
}

TEST_P(EveryUnit, ServicesMayBeConstantOrVaryAsTheirMean) {
  for (const double variation : {0.0, 1.0}) {
    SCOPED_TRACE(variation);
    UnitSpec spec = GetParam().spec;
    spec.variation = variation;
    OutcomeLearner learner;
    UnitModel unit(spec, GetParam().look_ms, &learner, 5);
    unit.Serve(3000, 0.8);
    (void)unit.Judge();
    unit.Serve(2000, 0.8);
    EXPECT_RATIO(SlotMs(learner), unit.slot_ms(), 0.75, 1.35);
    const Predicted predicted = unit.Judge();
    EXPECT_RATIO(predicted.predicted_ms, predicted.actual_ms, 0.75, 1.5);
  }
}

// As the agent samples above 8,192 requests a second.
TEST(OutcomeLearner, OneInEightTimedOnTwoCpusPredictsAsWell) {
  for (const UnitSpec& spec : {UnitSpec{"kvs 1", 1, 0.05, 0.02}, UnitSpec{"kvs 4", 4, 0.2, 0.05}}) {
    SCOPED_TRACE(spec.name);
    OutcomeLearner learner;
    UnitModel unit(spec, 20, &learner, 5, 8, 2);
    unit.Serve(200'000, 0.8);
    EXPECT_RATIO(SlotMs(learner), unit.slot_ms(), 0.5, 1.3);
    (void)unit.Judge();
    unit.Serve(20'000, 0.8);
    const Predicted predicted = unit.Judge();
    EXPECT_RATIO(predicted.predicted_ms, predicted.actual_ms, 0.75, 1.6);
  }
}

TEST(OutcomeLearner, BelowItsQuotaAUnitIsPredictedNotToWait) {
  OutcomeLearner learner;
  UnitModel unit(kQuota, 20, &learner, 3);
  unit.Serve(5000, 0.3);
  EXPECT_RATIO(BaseMs(learner), unit.unqueued_ms(), 0.9, 1.6);
  EXPECT_LE(SlotMs(learner), KneeMs(learner)) << "one request waits for nobody";
  (void)unit.Judge();
  unit.Serve(1000, 0.3);
  const Predicted predicted = unit.Judge();
  EXPECT_RATIO(predicted.predicted_ms, predicted.actual_ms, 0.5, 1.5);
}

TEST(OutcomeLearner, AtHighLoadAQuotaIsPartOfTheSlot) {
  for (const double load : {0.8, 0.95}) {
    SCOPED_TRACE(load);
    OutcomeLearner learner;
    UnitModel unit(kQuota, 20, &learner, 3);
    unit.Serve(3000, 0.4);
    unit.Serve(5000, load);
    EXPECT_RATIO(SlotMs(learner), unit.slot_ms(), 0.6, 1.25);
  }
}

// A DNS server that signs, with 1 ms of CPU time in each 5.
constexpr UnitSpec kDnsQuota{"dns quota", 1, 0.25, 0.05, 0.1, 1, 5};

TEST(OutcomeLearner, OnceAnOverloadOfAQuotaIsOverNoQueueIsPredictedWhereNoneIs) {
  OutcomeLearner learner;
  UnitModel unit(kDnsQuota, 5, &learner, 3);
  unit.Serve(300, 0.1, /*poisson=*/false);
  for (int search = 0; search < 3; search++) {  // as where somebody looks for the most that the unit can do
    unit.Serve(1500, 2.5, false);
    unit.Rest(3000);
    unit.Serve(800, 0.9, false);
  }
  (void)unit.Judge();
  for (int second = 1; second <= 20; second++) {
    SCOPED_TRACE(second);
    unit.Serve(320, 0.4, false);
    EXPECT_LE(SlotMs(learner), unit.slot_ms() * 1.5)
        << "less than half of it is used: a queue out of nothing";
    const Predicted predicted = unit.Judge();
    if (second > 2) EXPECT_RATIO(predicted.predicted_ms, predicted.actual_ms, 0.7, 2);
  }
}

TEST(OutcomeLearner, OnceIdleAfterAnOverloadAUnitIsTakenToBeAsQuickAsItWasBefore) {
  constexpr UnitSpec kOneInTwenty{"nic quota", 1, 0.36, 0.02, 0.1, 1, 20};
  for (const double load : {1.1, 1.2, 1.3}) {
    SCOPED_TRACE(load);
    OutcomeLearner learner;
    UnitModel unit(kOneInTwenty, 5, &learner, 3);
    unit.Serve(100, 0.3);
    unit.Serve(1000, load);
    ASSERT_GT(BaseMs(learner), 2 * unit.unqueued_ms()) << "else there is nothing to forget";
    unit.Rest(60'000);
    EXPECT_LE(BaseMs(learner), 1.2 * unit.unqueued_ms());
  }
}

TEST(OutcomeLearner, SaysNothingBeforeEightAnswers) {
  OutcomeLearner learner;
  UnitModel unit(kDnsCpu, 20, &learner, 1);
  EXPECT_EQ(learner.learnt(), Learnt{});
  unit.Rest(1000);
  unit.Serve(7, 0.01);
  unit.Look();
  EXPECT_EQ(learner.learnt(), Learnt{});
  unit.Serve(33, 0.01);
  unit.Look();
  EXPECT_RATIO(BaseMs(learner), unit.unqueued_ms(), 0.95, 1.1);
  EXPECT_RATIO(SlotMs(learner), BaseMs(learner), 0.8, 1.1);  // one at a time, for all we know
  EXPECT_GE(KneeMs(learner), SlotMs(learner));
}

TEST(OutcomeLearner, TheWorkersItIsToldAreWhereItStarts) {
  OutcomeLearner learner(/*workers=*/12);
  UnitModel unit(kKnnCpu, 20, &learner, 1);
  unit.Serve(50, 0.02);
  EXPECT_RATIO(SlotMs(learner), 240.0 / 12, 0.8, 1.2);
  unit.Serve(2000, 1.1);
  EXPECT_RATIO(SlotMs(learner), unit.slot_ms(), 0.9, 1.1);
}

TEST(OutcomeLearner, AUnitThatIsNotUsedAnyMoreIsForgottenWithinAMinute) {
  OutcomeLearner learner;
  UnitModel unit(kDnsNic, 20, &learner, 1);
  unit.Serve(4000, 0.4);
  const double quick = unit.unqueued_ms();
  unit.Slow(4);
  unit.Serve(1000, 0.9);
  ASSERT_GT(BaseMs(learner), 1.7 * quick) << "else there is nothing to forget";
  unit.Rest(60'000);
  EXPECT_LE(BaseMs(learner), 1.1 * quick) << "or nobody would ever try it again";
  EXPECT_EQ(BacklogMs(learner), 0);
}

TEST(OutcomeLearner, LooksAtEveryAnswerTeachTheSame) {
  OutcomeLearner learner;
  UnitModel unit(kKnnCpu, 1e9, &learner, 1);
  unit.Look();
  for (int i = 0; i < 3000; i++) {
    unit.Serve(1, 0.8);
    unit.Look();
  }
  EXPECT_RATIO(SlotMs(learner), unit.slot_ms(), 0.8, 1.25);
  EXPECT_RATIO(BaseMs(learner), unit.unqueued_ms(), 0.8, 1.4);
}

TEST(OutcomeLearner, OutlivesCountersThatStartAnewAndClocksThatStand) {
  OutcomeLearner learner;
  UnitModel unit(kVggCpu, 20, &learner, 1);
  unit.Serve(2000, 0.8);
  const Learnt before = learner.learnt();
  const spw_meter_counts totals = unit.totals();
  learner.Look(1h, 3, spw_meter_counts{}, 1, unit.clocks());
  EXPECT_EQ(learner.learnt(), before);
  learner.Look(1min, 3, totals, 1, unit.clocks());  // time went back
  EXPECT_EQ(learner.learnt(), before);
}

TEST(OutcomeLearner, AMeterThatIsStartedAgainIsLearntFromAnew) {
  OutcomeLearner learner;
  UnitModel first(kVggCpu, 20, &learner, 1);
  first.Serve(2000, 0.8);
  UnitModel second(kVggCpu, 20, &learner, 2);  // its time begins anew, too
  second.Rest(300'000);
  second.Serve(2000, 0.8);
  EXPECT_RATIO(SlotMs(learner), second.slot_ms(), 0.85, 1.2);
  EXPECT_RATIO(BaseMs(learner), second.unqueued_ms(), 0.8, 1.4);
}

}  // namespace
}  // namespace spillway::agent
