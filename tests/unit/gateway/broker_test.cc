// SPDX-License-Identifier: Apache-2.0
#include "gateway/broker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include <tuple>

#include "broker_bed.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint32_t kAlice = 0, kBob = 1;

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

TEST(Broker, AnExecutorsDeathPlacesItsRequestsOnceMoreAndThenSaysSo) {
  BrokerBed bed;
  const uint32_t first = bed.Join("one");
  const uint32_t second = bed.Join("two");
  bed.Ask();
  ASSERT_EQ(bed.delivered.size(), 1u);
  bed.broker.RemoveExecutor(first, bed.now);
  ASSERT_EQ(bed.delivered.size(), 2u);
  EXPECT_NE(bed.delivered[0].slice, bed.delivered[1].slice);
  EXPECT_FALSE(bed.Done(0)) << "the dead one's completion";
  EXPECT_THAT(bed.answers[0], IsEmpty());
  bed.broker.RemoveExecutor(second, bed.now);
  EXPECT_THAT(bed.answers[0], ElementsAre(Status::kExecutorLost));
  EXPECT_EQ(bed.broker.counts().replaced, 1u);
  EXPECT_EQ(bed.broker.running(), 0u);
}

TEST(Broker, ADrainingExecutorFinishesWhatItHasAndGetsNothingMore) {
  BrokerBed bed;
  bed.Join("old");
  bed.Ask();
  bed.broker.Drain({"old"}, bed.now);
  EXPECT_EQ(bed.broker.InHand("old"), 1u);
  bed.Ask(kAlice, 10ms);
  EXPECT_EQ(bed.delivered.size(), 1u);
  bed.Join("new");
  bed.broker.Retry(bed.now);
  ASSERT_EQ(bed.delivered.size(), 2u);
  EXPECT_NE(bed.delivered[0].slice, bed.delivered[1].slice);
  EXPECT_TRUE(bed.Done(0));
  EXPECT_EQ(bed.broker.InHand("old"), 0u);
  bed.Ask();
  EXPECT_EQ(bed.delivered[2].slice, bed.delivered[1].slice);
  EXPECT_THAT(bed.answers[0], ElementsAre(Status::kOk));
}

TEST(Broker, WhatWaitedGoesToAnExecutorThatDrainsNoMoreAndADrainIsKeptForOneThatComesBack) {
  BrokerBed bed;
  bed.broker.Drain({"host"}, bed.now);
  const uint32_t host = bed.Join("host");
  bed.Ask(kAlice, 10ms);
  EXPECT_THAT(bed.delivered, IsEmpty());
  bed.broker.RemoveExecutor(host, bed.now);
  bed.Join("host");
  bed.broker.Retry(bed.now);
  EXPECT_THAT(bed.delivered, IsEmpty());
  bed.now += 10ms;
  bed.broker.Tick(bed.now);
  EXPECT_EQ(bed.messages[0], "no slice became available before the deadline: 1 slice takes nothing more");
  bed.Ask();
  bed.broker.Drain({}, bed.now);
  EXPECT_EQ(bed.delivered.size(), 1u);
}

TEST(Broker, RequestsWaitForAnExecutorThatComesBack) {
  BrokerBed bed;
  bed.broker.RemoveExecutor(bed.Join("host"), bed.now);
  bed.Ask();
  EXPECT_TRUE(bed.delivered.empty());
  bed.Join("host");
  EXPECT_EQ(bed.delivered.size(), 1u);
}

TEST(Broker, ARequestThatAnExecutorDiedWithGoesToABusierOneRatherThanBack) {
  BrokerBed bed;
  const uint32_t first = bed.Join("one", 1, 1);
  bed.Ask();
  bed.Join("two", 1, 2);
  bed.Ask();
  bed.Ask();
  ASSERT_EQ(bed.delivered.size(), 3u);
  bed.broker.RemoveExecutor(first, bed.now);
  ASSERT_TRUE(bed.broker.AddExecutor(SmallOffer("one", 1, 1), bed.now));
  ASSERT_EQ(bed.delivered.size(), 3u)
      << "the other is full, and nothing is placed yet on the one that is back";
  EXPECT_TRUE(bed.Done(1));
  ASSERT_EQ(bed.delivered.size(), 4u);
  EXPECT_EQ(bed.delivered[3].slice, bed.delivered[1].slice);
}

TEST(Broker, AnExecutorThatComesBackTakesItsOldNumbers) {
  BrokerBed bed;
  for (int i = 0; i < 1000; i++) bed.broker.RemoveExecutor(bed.Join("host", 4), bed.now);
  EXPECT_EQ(bed.broker.Slices().size(), 4u);
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

TEST(Broker, AFullQueueAndFullMemoryAreBusy) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.tenants[kAlice].queue = 1;
  options.memory = 100;
  BrokerBed bed(options);
  bed.Join("host", 1, 1);
  bed.Ask();
  bed.Ask();
  bed.Ask();
  EXPECT_THAT(bed.answers[2], ElementsAre(Status::kBusy));
  EXPECT_THAT(bed.messages[2], HasSubstr("queue of 1"));
  bed.Ask(kBob, {}, 60);
  bed.Ask(kBob, {}, 60);
  EXPECT_THAT(bed.answers[4], ElementsAre(Status::kBusy));
  EXPECT_EQ(bed.broker.memory_held(), 60u);
  EXPECT_TRUE(bed.broker.Full({kBob}, 41));
  EXPECT_FALSE(bed.broker.Full({kBob}, 40));
}

TEST(Broker, WhatCanNeverFitIsTooLargeAndNotToldToComeAgain) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.memory = 100;
  BrokerBed bed(options);
  bed.Join("host");
  bed.Ask(kAlice, {}, 100);  // fills it: what never fits is told so all the same
  bed.Ask(kAlice, {}, 101);
  EXPECT_THAT(bed.answers[1], ElementsAre(Status::kTooLarge));
  EXPECT_EQ(bed.messages[1], "model m: 99 bytes of inputs and 2 of outputs exceed limits.memory, 100 bytes");
  bed.Ask(kAlice, {}, 100);
  EXPECT_THAT(bed.answers[2], ElementsAre(Status::kBusy));
  EXPECT_TRUE(bed.broker.CanFit(90, 10));
  EXPECT_FALSE(bed.broker.CanFit(90, 11));
  EXPECT_FALSE(bed.broker.CanFit(UINT64_MAX, 1)) << "sums do not wrap";
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
  EXPECT_TRUE(bed.delivered[2].scrub);
  bed.Done(2);
  EXPECT_THAT(bed.answers[2], ElementsAre(Status::kOk));
  EXPECT_EQ(bed.delivered.size(), 4u);
  EXPECT_TRUE(bed.delivered[3].scrub);
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
  EXPECT_FALSE(bed.delivered[1].scrub);
}

TEST(Broker, AnExecutorThatNeitherAnswersNorDiesIsAbandoned) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.stuck_after = 100ms;
  BrokerBed bed(options);
  const uint32_t executor = bed.Join("host");
  bed.Ask(kAlice, 1s);
  bed.now += 99ms;
  bed.broker.Tick(bed.now);
  EXPECT_TRUE(bed.abandoned.empty());
  bed.now += 10ms;
  bed.broker.Tick(bed.now);
  EXPECT_THAT(bed.abandoned, ElementsAre(executor));
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

TEST(Broker, RefusesExecutorsThatDoNotFit) {
  BrokerBed bed;
  bed.Join("host");
  EXPECT_THAT(bed.broker.AddExecutor(SmallOffer("host"), bed.now).error().message,
              HasSubstr("already connected"));
  ExecutorOffer other = SmallOffer("other");
  other.models[0].most_rows = 3;
  EXPECT_THAT(bed.broker.AddExecutor(other, bed.now).error().message, HasSubstr("other tensors"));
  ExecutorOffer small = SmallOffer("small");
  small.slices[0].input_bytes = 15;  // 4 rows of 4 bytes
  EXPECT_THAT(bed.broker.AddExecutor(small, bed.now).error().message, HasSubstr("do not fit"));
}

TEST(Broker, AModelOfWhichNoRowFitsIntoTheMemoryIsRefused) {
  BrokerOptions options = BrokerBed::TwoTenants();
  for (const auto& [memory, joins, four_fit] :  // a row is 4 bytes of inputs and 2 of outputs
       {std::tuple(5u, false, false), {6u, true, false}, {23u, true, false}, {24u, true, true}}) {
    options.memory = memory;
    BrokerBed bed(options);
    const auto joined = bed.broker.AddExecutor(SmallOffer("host"), bed.now);
    EXPECT_EQ(joined.has_value(), joins) << memory;
    if (!joined) {
      EXPECT_EQ(joined.error().message,
                "model m: one row: 4 bytes of inputs and 2 of outputs exceed limits.memory, 5 bytes");
    }
    EXPECT_EQ(bed.broker.CanFit(16, 8).has_value(), four_fit) << memory;
  }
}

ExecutorOffer OfOneModel(const std::string& executor, const std::string& model) {
  ExecutorOffer offer = SmallOffer(executor);
  offer.models[0].name = model;
  return offer;
}

// MIG needs an executor for each instance of a GPU.
TEST(Broker, TwoExecutorsOnOneGpuServeOneTenantAtATimeUnderIsolationGpu) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.isolation = scheduler::Isolation::kGpu;
  BrokerBed bed(options);
  bed.Join("one");
  bed.Join("two");
  bed.Ask(kAlice);
  bed.Ask(kBob);
  ASSERT_EQ(bed.delivered.size(), 1u) << "two tenants side by side on one GPU";
  bed.Done(0);
  ASSERT_EQ(bed.delivered.size(), 2u);
  EXPECT_THAT(bed.answers[1], IsEmpty());
  bed.Done(1);
  EXPECT_THAT(bed.answers[1], ElementsAre(Status::kOk));
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

// By its figures a request takes longer than any clock counts.
TEST(Broker, AnExecutorWithFiguresBeyondAllMeasureIsNotKeptForEver) {
  BrokerBed bed;
  ExecutorOffer offer = SmallOffer("liar");
  offer.models[0].gflop_per_row = 1e12;
  offer.slices[0].gflop_per_s = 1e-6;
  const auto joined = bed.broker.AddExecutor(offer, bed.now);
  ASSERT_TRUE(joined);
  bed.Ask(kAlice, 1s);
  ASSERT_EQ(bed.delivered.size(), 1u);
  bed.now += 59min;
  bed.broker.Tick(bed.now);
  EXPECT_TRUE(bed.abandoned.empty());
  bed.now += 2min;
  bed.broker.Tick(bed.now);
  EXPECT_THAT(bed.abandoned, ElementsAre(joined->executor));
}

TEST(Broker, AHeartbeatKeepsALongRunAliveButNotBeyondWhatAnybodyWants) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.stuck_after = 10s;
  options.longest_deadline = 60s;
  BrokerBed bed(options);
  const uint32_t executor = bed.Join("host");
  bed.Ask(kAlice, 60s);
  for (int second = 1; second < 70; second++) {
    bed.now += 1s;
    bed.broker.Beat(executor, bed.now);
    bed.broker.Tick(bed.now);
    ASSERT_TRUE(bed.abandoned.empty()) << second;
  }
  EXPECT_THAT(bed.answers[0], ElementsAre(Status::kDeadline));
  bed.now += 2s;
  bed.broker.Beat(executor, bed.now);
  bed.broker.Tick(bed.now);
  EXPECT_THAT(bed.abandoned, ElementsAre(executor)) << "the program lives, and the request never ends";
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

TEST(Broker, ByUuidAGpuIsOneWhateverItIsCalledAndNamesAreOfOneHost) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.isolation = scheduler::Isolation::kGpu;
  const auto side_by_side = [&](auto change) {
    BrokerBed bed(options);
    ExecutorOffer one = SmallOffer("one"), two = SmallOffer("two");
    change(one, two);
    EXPECT_TRUE(bed.broker.AddExecutor(one, bed.now));
    EXPECT_TRUE(bed.broker.AddExecutor(two, bed.now));
    bed.Ask(kAlice);
    bed.Ask(kBob);
    return bed.delivered.size() == 2;
  };
  EXPECT_FALSE(side_by_side([](auto& one, auto& two) {  // two instances of one GPU
    one.slices[0].gpu = "first";
    two.slices[0].gpu = "second";
    one.slices[0].gpu_uuid = two.slices[0].gpu_uuid = "GPU-1";
  }));
  EXPECT_TRUE(side_by_side([](auto& one, auto& two) {
    one.slices[0].gpu_uuid = "GPU-1";
    two.slices[0].gpu_uuid = "GPU-2";
  }));
  EXPECT_TRUE(side_by_side([](auto&, auto& two) { two.host = "192.0.2.7"; }));
}

TEST(Broker, AGpusTimeIsItsTenantsWhicheverExecutorTheyHadItBy) {
  BrokerBed bed;
  ExecutorOffer one = SmallOffer("one"), two = SmallOffer("two");
  one.slices[0].gpu_uuid = two.slices[0].gpu_uuid = "GPU-1";
  ASSERT_TRUE(bed.broker.AddExecutor(one, bed.now));
  ASSERT_TRUE(bed.broker.AddExecutor(two, bed.now));
  bed.Ask(kAlice);
  bed.Ask(kBob);
  ASSERT_EQ(bed.delivered.size(), 2u);
  bed.now += 3s;
  bed.Done(0);
  bed.now += 2s;
  bed.Done(1);
  ASSERT_EQ(bed.broker.gpus().size(), 1u);
  const GpuTable::Gpu& gpu = bed.broker.gpus()[0];
  EXPECT_EQ(gpu.identity, "GPU-1");
  EXPECT_EQ(gpu.slices, 2u);
  EXPECT_EQ(gpu.uses[kAlice].time, 3s);
  EXPECT_EQ(gpu.uses[kBob].time, 5s);
}

// Programs say nothing of their speed: it is learnt.
TEST(Broker, OfTwoProgramsNearlyAllRequestsGoToTheOneThatIsTenTimesAsQuick) {
  BrokerBed bed;
  const auto program = [](const std::string& name) {
    ExecutorOffer offer = SmallOffer(name);
    offer.models[0].gflop = offer.models[0].gflop_per_row = 0;
    offer.slices[0].gpu = name;
    return offer;
  };
  const auto slow = bed.broker.AddExecutor(program("slow"), bed.now);
  ASSERT_TRUE(bed.broker.AddExecutor(program("quick"), bed.now));
  int asked_slow = 0;
  for (size_t i = 0; i < 2000; i++) {  // one at a time
    bed.Ask(kAlice);
    ASSERT_EQ(bed.delivered.size(), i + 1);
    const bool is_slow = bed.delivered[i].slice == slow->first_slice;
    const Duration took = is_slow ? 200ms : 20ms;
    asked_slow += is_slow;
    bed.now += took;
    ASSERT_TRUE(bed.broker.Complete(bed.delivered[i].slice, bed.delivered[i].id, Status::kOk,
                                    BrokerBed::kOutputs, took, bed.now));
  }
  EXPECT_GE(asked_slow, 2) << "it might have become quicker";
  EXPECT_LE(asked_slow, 6);  // one to learn, and one for each 64 * 180 ms of the others' work
}

TEST(Broker, AnExecutorThatCallsItselfQuickIsLeftOnceItIsKnown) {
  BrokerBed bed;
  ExecutorOffer liar = SmallOffer("liar"), honest = SmallOffer("honest");
  liar.slices[0].gflop_per_s = 1e9;
  honest.slices[0].gpu = "gpu1";
  const auto lies = bed.broker.AddExecutor(liar, bed.now);
  ASSERT_TRUE(bed.broker.AddExecutor(honest, bed.now));
  int asked_liar = 0;
  for (size_t i = 0; i < 500; i++) {
    bed.Ask(kAlice);
    const bool to_liar = bed.delivered[i].slice == lies->first_slice;
    asked_liar += to_liar;
    bed.now += to_liar ? 100ms : 10ms;
    bed.broker.Complete(bed.delivered[i].slice, bed.delivered[i].id, Status::kOk, BrokerBed::kOutputs,
                        Duration(to_liar ? 0 : 10'000'000), bed.now);
  }
  EXPECT_LE(asked_liar, 5);
}

TEST(Broker, WhatASliceHasInHandCountsUntilItIsDone) {
  BrokerBed bed;
  ExecutorOffer wrong = SmallOffer("wrong", 1, 4), right = SmallOffer("right", 1, 4);
  wrong.slices[0].gflop_per_s = 0.0011;  // nearly a second a request, it says
  right.slices[0].gflop_per_s = 0.001;
  ASSERT_TRUE(bed.broker.AddExecutor(wrong, bed.now));
  ASSERT_TRUE(bed.broker.AddExecutor(right, bed.now));
  bed.Ask(kAlice);
  bed.Ask(kAlice);
  bed.Ask(kAlice);
  ASSERT_EQ(bed.delivered.size(), 3u);  // wrong, right, wrong
  ASSERT_EQ(bed.delivered[2].slice, bed.delivered[0].slice);
  bed.now += 1ms;
  bed.Done(0);
  // A second less than it was given is expected of it, so that it is done before the other one.
  bed.Ask(kAlice);
  EXPECT_EQ(bed.delivered[3].slice, bed.delivered[0].slice);
}

TEST(Broker, AReserveOfTheMemoryIsItsOwnersAlone) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.memory = 100;
  options.tenants[kBob].reserve = 30;
  BrokerBed bed(options);
  bed.Join("host", 1, 4);
  bed.Ask(kAlice, {}, 71);
  EXPECT_THAT(bed.answers[0], ElementsAre(Status::kTooLarge)) << "never, not later";
  EXPECT_THAT(bed.messages[0], HasSubstr("70 of 100 bytes"));
  bed.Ask(kAlice, {}, 70);
  EXPECT_THAT(bed.answers[1], IsEmpty());
  bed.Ask(kAlice, {}, 1);
  EXPECT_THAT(bed.answers[2], ElementsAre(Status::kBusy));
  bed.Ask(kBob, {}, 30);
  EXPECT_THAT(bed.answers[3], IsEmpty());
  bed.Ask(kBob, {}, 1);
  EXPECT_THAT(bed.answers[4], ElementsAre(Status::kBusy));
}

TEST(Broker, OneFrontDoesNotUseUpTheOthersReserve) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.memory = 100;
  options.front_reserves = {20, 20};
  BrokerBed bed(options);
  const Account frames{kAlice, Front::kFrames}, http{kAlice, Front::kHttp};
  bed.broker.Hold(80, frames);
  EXPECT_TRUE(bed.broker.Full(frames, 1));
  EXPECT_FALSE(bed.broker.Full(http, 20));
  EXPECT_TRUE(bed.broker.Full(http, 21));
}

// A byte that came by a front whose reserve it used, and was a tenant's who has one, once counted against
// both: what others took meanwhile was missing when both were free again.
TEST(Broker, ReservesHoldWhateverWasHeldAndReleasedBefore) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.memory = 100;
  options.tenants[kBob].reserve = 30;
  options.front_reserves = {20, 20};
  BrokerBed bed(options);
  const Account alice{kAlice, Front::kFrames}, bob{kBob, Front::kHttp};
  bed.broker.Hold(20, bob);
  while (!bed.broker.Full(alice, 1)) bed.broker.Hold(1, alice);
  bed.broker.Release(20, bob);
  EXPECT_FALSE(bed.broker.Full(bob, 30));
  EXPECT_FALSE(bed.broker.Full({kBob, Front::kFrames}, 30));
  EXPECT_FALSE(bed.broker.Full({kAlice, Front::kHttp}, 20));
}

// Whoever comes and goes: as long as nothing is held that was refused, whoever has not used up his reserve
// has room for the rest of it.
TEST(Broker, EveryReserveHasRoomAtEveryMoment) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.memory = 100;
  options.tenants[kAlice].reserve = 15;
  options.tenants[kBob].reserve = 30;
  options.front_reserves = {20, 25};
  BrokerBed bed(options);
  std::mt19937 random(1);
  uint64_t held[2][2] = {};  // by tenant and front
  for (int step = 0; step < 20'000; step++) {
    const uint32_t tenant = random() % 2, front = random() % 2;
    const Account account{tenant, static_cast<Front>(front)};
    uint64_t& own = held[tenant][front];
    if (random() % 2 == 0) {
      const uint64_t bytes = 1 + random() % 40;
      if (bed.broker.Full(account, bytes)) continue;
      bed.broker.Hold(bytes, account);
      own += bytes;
    } else if (own > 0) {
      const uint64_t bytes = 1 + random() % own;
      bed.broker.Release(bytes, account);
      own -= bytes;
    }
    for (uint32_t t = 0; t < 2; t++)
      for (uint32_t f = 0; f < 2; f++) {
        const uint64_t of_tenant = held[t][0] + held[t][1], of_front = held[0][f] + held[1][f];
        const uint64_t reserve = options.tenants[t].reserve, front_reserve = options.front_reserves[f];
        if (of_tenant < reserve) {
          ASSERT_FALSE(bed.broker.Full({t, static_cast<Front>(f)}, reserve - of_tenant)) << "step " << step;
        }
        if (of_front < front_reserve) {
          ASSERT_FALSE(bed.broker.Full({t, static_cast<Front>(f)}, front_reserve - of_front))
              << "step " << step;
        }
      }
  }
}

TEST(Broker, ModelsThatNobodyServesMakeRoomForOthers) {
  BrokerBed bed;
  const auto join = [&](const std::string& prefix, int models) {
    ExecutorOffer offer = SmallOffer("host");
    offer.models.clear();
    for (int i = 0; i < models; i++) offer.models.push_back(SmallModel(prefix + std::to_string(i)));
    return bed.broker.AddExecutor(offer, bed.now);
  };
  // An executor whose models bear a version in their name, deployed again and again.
  for (int version = 0; version < 12; version++) {
    const auto joined = join("v" + std::to_string(version) + "-", 1000);
    ASSERT_TRUE(joined) << "version " << version << ": " << joined.error().message;
    bed.broker.RemoveExecutor(joined->executor, bed.now);
  }
  EXPECT_FALSE(bed.broker.FindModel("v0-0"));
  EXPECT_TRUE(bed.broker.FindModel("v11-0"));
  // Known ones take no second place.
  ASSERT_TRUE(join("big-", 4000));
  ExecutorOffer same = SmallOffer("same");
  same.models.clear();
  for (int i = 0; i < 4000; i++) same.models.push_back(SmallModel("big-" + std::to_string(i)));
  EXPECT_TRUE(bed.broker.AddExecutor(same, bed.now));
  ExecutorOffer other = SmallOffer("other");
  other.models.clear();
  for (int i = 0; i < 97; i++) other.models.push_back(SmallModel("more-" + std::to_string(i)));
  const auto refused = bed.broker.AddExecutor(other, bed.now);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("4096 models"));
}

TEST(Broker, AForgottenModelsNumberIsNobodyElsesAndARequestKeepsItsModelKnown) {
  BrokerBed bed;
  const uint32_t executor = bed.Join("host");
  const uint32_t number = *bed.broker.FindModel("m");
  bed.broker.RemoveExecutor(executor, bed.now);
  bed.Ask();  // waits for it to come back
  const auto crowd = [&](const std::string& prefix) {
    ExecutorOffer offer = SmallOffer("crowd");
    offer.models.clear();
    for (int i = 0; i < 4095; i++) offer.models.push_back(SmallModel(prefix + std::to_string(i)));
    const auto joined = bed.broker.AddExecutor(offer, bed.now);
    ASSERT_TRUE(joined) << joined.error().message;
    bed.broker.RemoveExecutor(joined->executor, bed.now);
  };
  crowd("a");
  crowd("b");
  EXPECT_TRUE(bed.answers[0].empty());
  EXPECT_EQ(bed.broker.FindModel("m"), number);
  bed.broker.Tick(bed.now += std::chrono::seconds(10));
  EXPECT_THAT(bed.answers[0], ElementsAre(Status::kNoSlice));
  crowd("c");
  crowd("d");
  EXPECT_FALSE(bed.broker.FindModel("m"));
  bed.Ask();  // by its number of then, which is 0
  EXPECT_THAT(bed.answers[1], ElementsAre(Status::kNoModel));
  bed.Join("again");
  EXPECT_NE(bed.broker.FindModel("m"), number);
}

TEST(Broker, WindowsHaveMemoryOfTheirOwnAndATenantPartOfIt) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.memory = 100;
  options.windows = 100;
  options.tenants[kBob].windows_reserve = 25;
  BrokerBed bed(options);
  EXPECT_EQ(bed.broker.HoldWindow(76, kAlice).error().code, ErrorCode::kBadInput) << "never";
  EXPECT_TRUE(bed.broker.HoldWindow(75, kAlice));
  EXPECT_EQ(bed.broker.HoldWindow(1, kAlice).error().code, ErrorCode::kConflict) << "not now";
  EXPECT_TRUE(bed.broker.HoldWindow(25, kBob));
  EXPECT_FALSE(bed.broker.Full({kAlice, Front::kHttp}, 100));
  bed.broker.ReleaseWindow(75, kAlice);
  EXPECT_TRUE(bed.broker.HoldWindow(75, kAlice));
}

TEST(Broker, AModelThatIsReplacedMeanwhileIsToldToWhoAskedForTheOldOne) {
  BrokerBed bed;
  const uint32_t executor = bed.Join("host", 1, 1);
  const uint32_t old = *bed.broker.FindModel("m");
  bed.Ask();
  bed.Ask();
  bed.broker.RemoveExecutor(executor, bed.now);
  ExecutorOffer other = SmallOffer("other");
  other.models[0].outputs = {{"output", DataType::kU8, {-1, 1}}};
  ASSERT_TRUE(bed.broker.AddExecutor(other, bed.now));
  bed.broker.Retry(bed.now);
  EXPECT_THAT(bed.answers[0], ElementsAre(Status::kNoModel));
  EXPECT_THAT(bed.answers[1], ElementsAre(Status::kNoModel));
  EXPECT_EQ(bed.delivered.size(), 1u) << "the other model would answer with other outputs";
  EXPECT_NE(*bed.broker.FindModel("m"), old) << "a client's number names what it was told of";
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
