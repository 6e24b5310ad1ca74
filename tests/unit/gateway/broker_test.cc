// SPDX-License-Identifier: Apache-2.0
#include "gateway/broker/broker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "broker_bed.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Broker, DeliversAtOnceAndAnswersOnce) {
  BrokerBed bed;
  bed.Join("host");
  bed.Ask();
  ASSERT_EQ(bed.delivered.size(), 1u);
  EXPECT_THAT(bed.answers[0], IsEmpty());
  EXPECT_TRUE(bed.Done(0));
  EXPECT_THAT(bed.answers[0], ElementsAre(Status::kOk));
  EXPECT_FALSE(bed.Done(0)) << "a second completion of one request";
  EXPECT_EQ(bed.answers[0].size(), 1u);
}

TEST(Broker, WhatNoSliceTakesWaitsAndIsRefusedAtItsDeadlineWithTheReason) {
  BrokerBed bed;
  bed.Join("host", 1, 1);
  bed.Ask();
  bed.Ask(kAlice, 10ms);
  EXPECT_EQ(bed.delivered.size(), 1u);
  bed.now += 9ms;
  bed.broker.Tick(bed.now);
  EXPECT_THAT(bed.answers[1], IsEmpty());
  bed.now += 1ms;
  bed.broker.Tick(bed.now);
  EXPECT_THAT(bed.answers[1], ElementsAre(Status::kNoSlice));
  EXPECT_EQ(bed.messages[1], "no slice became available before the deadline: 1 slice is full");
}

TEST(Broker, NoRequestWaitsBeyondTheLongestDeadlineWhateverItAsksFor) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.longest_deadline = 20ms;
  BrokerBed bed(options);
  bed.Join("host", 1, 1);
  bed.Ask();
  bed.Ask(kAlice, 1h);
  bed.now += 19ms;
  bed.broker.Tick(bed.now);
  EXPECT_THAT(bed.answers[1], IsEmpty());
  bed.now += 1ms;
  bed.broker.Tick(bed.now);
  EXPECT_THAT(bed.answers[1], ElementsAre(Status::kNoSlice));
}

TEST(Broker, AWaitingRequestGoesWhenACellIsFree) {
  BrokerBed bed;
  bed.Join("host", 1, 1);
  bed.Ask();
  bed.Ask();
  bed.Done(0);
  ASSERT_EQ(bed.delivered.size(), 2u);
  EXPECT_EQ(bed.delivered[1].cell, bed.delivered[0].cell);
}

TEST(Broker, ARunningRequestIsAnsweredAtItsDeadlineAndItsCellStaysTaken) {
  BrokerBed bed;
  bed.Join("host", 1, 1);
  bed.Ask(kAlice, 5ms);
  bed.now += 5ms;
  bed.broker.Tick(bed.now);
  EXPECT_THAT(bed.answers[0], ElementsAre(Status::kDeadline));
  bed.Ask();
  EXPECT_EQ(bed.delivered.size(), 1u) << "the slice still writes to that cell";
  EXPECT_TRUE(bed.Done(0));
  EXPECT_EQ(bed.answers[0].size(), 1u);
  EXPECT_EQ(bed.delivered.size(), 2u);
  EXPECT_EQ(bed.broker.counts().late_completions, 1u);
}

TEST(Broker, CancelsWhatWaitsAndWhatRuns) {
  BrokerBed bed;
  bed.Join("host", 1, 1);
  const uint64_t running = bed.Ask();
  const uint64_t waiting = bed.Ask();
  bed.broker.Cancel(waiting, bed.now);
  bed.broker.Cancel(running, bed.now);
  bed.broker.Cancel(running, bed.now);
  EXPECT_THAT(bed.answers[0], ElementsAre(Status::kCancelled));
  EXPECT_THAT(bed.answers[1], ElementsAre(Status::kCancelled));
  bed.Done(0);
  EXPECT_EQ(bed.delivered.size(), 1u);
  EXPECT_EQ(bed.answers[0].size(), 1u);
}

TEST(Broker, TenantsTakeTurnsInASliceThatOneOfThemNeverLeaves) {
  BrokerBed bed;
  bed.Join("host", 1, 2);
  bed.Ask(kAlice);
  bed.Ask(kAlice);
  bed.Ask(kBob);
  bed.Ask(kAlice);
  bed.Done(0);
  // Bob has the promise: Alice's third does not fill the cell that came free.
  EXPECT_EQ(bed.delivered.size(), 2u);
  bed.Done(1);
  ASSERT_EQ(bed.delivered.size(), 3u);
  EXPECT_TRUE(bed.delivered[2].wipe);
  bed.Done(2);
  EXPECT_THAT(bed.answers[2], ElementsAre(Status::kOk));
  EXPECT_EQ(bed.delivered.size(), 4u);
  EXPECT_TRUE(bed.delivered[3].wipe);
}

TEST(Broker, AClientThatLeavesWhileItWaitsKeepsNobodyOut) {
  BrokerBed bed;
  bed.Join("host", 1, 2);
  bed.Ask(kAlice);
  const auto waiting = bed.Ask(kBob);
  bed.broker.Cancel(waiting, bed.now);
  bed.Ask(kAlice);
  EXPECT_EQ(bed.delivered.size(), 2u);
}

TEST(Broker, ARequestThatWaitsNoMoreKeepsNobodyOutThoughItsTenantWaitsForAnotherModel) {
  for (const bool by_deadline : {false, true}) {
    BrokerBed bed;
    bed.Join("host", 1, 1);
    bed.Ask(kAlice);
    const auto gone = bed.broker.AddExecutor(OfOneModel("gone", "other"), bed.now);
    bed.broker.RemoveExecutor(gone->executor, bed.now);
    bed.Ask(kBob, {}, 0, 1);  // nobody serves that model any more
    const auto waiting = bed.Ask(kBob, 1ms);
    if (by_deadline) {
      bed.now += 2ms;
      bed.broker.Tick(bed.now);
    } else {
      bed.broker.Cancel(waiting, bed.now);
    }
    bed.Done(0);
    bed.Ask(kAlice);
    EXPECT_EQ(bed.delivered.size(), 2u) << by_deadline;
  }
}

TEST(Broker, ATenantThatOneSliceServesIsPromisedNoOther) {
  for (size_t first_done : {0, 1}) {
    BrokerBed bed;
    bed.Join("one");
    bed.Join("two");
    bed.Ask(kAlice);
    bed.Ask(kAlice);
    bed.Ask(kBob);
    ASSERT_EQ(bed.delivered.size(), 2u);
    bed.Done(first_done);
    ASSERT_EQ(bed.delivered.size(), 3u);
    bed.Ask(kAlice);
    EXPECT_EQ(bed.delivered.size(), 4u) << "into the slice that she is in";
  }
}

TEST(Broker, ASliceOfTheSameTenantIsNotScrubbed) {
  BrokerBed bed;
  bed.Join("host", 1, 1);
  bed.Ask(kAlice);
  bed.Done(0);
  bed.Ask(kAlice);
  EXPECT_FALSE(bed.delivered[1].wipe);
}

TEST(Broker, ASliceThatRefusesADeliveryIsNotAskedAgain) {
  BrokerBed bed;
  bed.Join("host");
  bed.refuse_deliveries = true;
  bed.Ask();
  EXPECT_EQ(bed.abandoned.size(), 1u);
  EXPECT_THAT(bed.answers[0], IsEmpty());
}

TEST(Broker, RefusesWrongSizesAndRows) {
  BrokerBed bed;
  bed.Join("host");
  for (const int64_t rows : {0, 2, 5, -1}) {
    Request request;
    request.inputs = BrokerBed::kInputs;
    request.rows = rows;
    Status told = Status::kOk;
    request.reply = [&](const Answer& answer) { told = answer.status; };
    EXPECT_EQ(bed.broker.Submit(std::move(request), bed.now), 0u);
    EXPECT_EQ(told, Status::kBadRequest) << rows;
  }
}

TEST(Broker, RequestsForAModelThatNobodyServesKeepNoOthersWaiting) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.tenants[kAlice].queue = 100;
  BrokerBed bed(options);
  const auto gone = bed.broker.AddExecutor(OfOneModel("gone", "away"), bed.now);
  ASSERT_TRUE(gone);
  bed.broker.RemoveExecutor(gone->executor, bed.now);
  for (int i = 0; i < 20; i++) bed.Ask(kAlice);  // of the first model, which is away
  bed.Join("host");
  Request request;
  request.tenant = kAlice;
  request.model = *bed.broker.FindModel("m");
  request.inputs = BrokerBed::kInputs;
  bool answered = false;
  request.reply = [&](const Answer&) { answered = true; };
  bed.broker.Submit(std::move(request), bed.now);
  ASSERT_EQ(bed.delivered.size(), 1u);
  bed.Done(0);
  EXPECT_TRUE(answered);
}

TEST(Broker, WhatWaitsInASliceCountsAsStuckFromItsOwnStartOn) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.stuck_after = 10s;
  BrokerBed bed(options);
  const uint32_t executor = bed.Join("host", 1, 2);
  bed.Ask(kAlice, 60s);
  bed.Ask(kAlice, 60s);
  bed.now += 6s;
  ASSERT_TRUE(bed.Done(0));
  bed.now += 6s;  // 12 s after its delivery, 6 s after its start
  bed.broker.Tick(bed.now);
  EXPECT_TRUE(bed.abandoned.empty());
  // The first took 6 s; so will this one, and 10 s more are allowed.
  bed.now += 9s;
  bed.broker.Tick(bed.now);
  EXPECT_TRUE(bed.abandoned.empty());
  bed.now += 2s;
  bed.broker.Tick(bed.now);
  EXPECT_THAT(bed.abandoned, ElementsAre(executor));
}

TEST(Broker, TheNextEndIsThatOfTheSliceThatIsExpectedToBeDoneFirst) {
  BrokerBed bed;
  bed.Join("host", 2, 2);
  EXPECT_EQ(bed.broker.NextEnd(), std::nullopt);
  bed.Ask();
  const Time first = bed.now;
  EXPECT_EQ(bed.broker.NextEnd(), first + 1ms) << "0.001 Gflop at 1 Gflop/s";
  bed.now += 400us;
  bed.Ask();
  const Time second = bed.now;
  bed.now += 100us;
  bed.Ask();  // behind the first
  EXPECT_EQ(bed.broker.NextEnd(), first + 1ms);
  bed.now = first + 700us;
  bed.Done(0);
  EXPECT_EQ(bed.broker.NextEnd(), second + 1ms) << "the third has begun just now";
  bed.Done(1);
  EXPECT_GT(bed.broker.NextEnd(), bed.now);
  bed.Done(2);
  EXPECT_EQ(bed.broker.NextEnd(), std::nullopt);
}

TEST(Broker, WhatIsGivenUpIsToldToTheSlice) {
  BrokerBed bed;
  bed.Join("host");
  const uint64_t cancelled = bed.Ask();
  bed.broker.Cancel(cancelled, bed.now);
  const uint64_t late = bed.Ask(kAlice, 1ms);
  bed.now += 1ms;
  bed.broker.Tick(bed.now);
  EXPECT_THAT(bed.given_up, ElementsAre(cancelled, late));
}

TEST(Broker, WhatItKeepsOfDeadlinesDoesNotGrowWithTheRequestsThatWere) {
  BrokerBed bed;
  bed.Join("host");
  for (size_t i = 0; i < 100'000; i++) {
    bed.Ask();
    bed.Done(i);
  }
  // Deadlines lie seconds ahead: all that could be found is found by the next tick.
  EXPECT_TRUE(bed.broker.NextTick().has_value());
  EXPECT_EQ(bed.broker.memory_held(), 0u);
}

}  // namespace
}  // namespace spillway::gateway
