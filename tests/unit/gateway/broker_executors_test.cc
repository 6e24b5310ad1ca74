// SPDX-License-Identifier: Apache-2.0
// Executors that join, die, drain and lie, and what the broker makes of their slices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "broker_bed.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
  EXPECT_THAT(bed.delivered, IsEmpty());
  bed.now += 10ms;
  bed.broker.Tick(bed.now);
  EXPECT_EQ(bed.messages[0], "no slice became available before the deadline: 1 slice takes nothing more");
  bed.Ask();
  bed.broker.Drain({}, bed.now);
  EXPECT_EQ(bed.delivered.size(), 1u);
}

TEST(Broker, AnExecutorThatIsStartingGetsNothingUntilItIsReady) {
  BrokerBed bed;
  ExecutorOffer offer = SmallOffer("new", 1);
  offer.is_starting = true;
  const uint32_t starting = bed.broker.AddExecutor(offer, bed.now)->executor;
  const uint32_t model = *bed.broker.FindModel(offer.models[0].name);
  bed.Ask();
  EXPECT_THAT(bed.delivered, IsEmpty());
  EXPECT_FALSE(bed.broker.ModelReady(model));
  bed.broker.Drain({"another"}, bed.now);
  EXPECT_THAT(bed.delivered, IsEmpty());
  bed.Ask(kAlice, 10ms);
  bed.now += 10ms;
  bed.broker.Tick(bed.now);
  EXPECT_EQ(bed.messages[1], "no slice became available before the deadline: 1 slice is starting");
  bed.broker.Ready(starting, bed.now);
  EXPECT_EQ(bed.delivered.size(), 1u);
  EXPECT_TRUE(bed.broker.ModelReady(model));
  // Its number serves again, of one that does not start.
  bed.broker.RemoveExecutor(starting, bed.now);
  bed.Join("next");
  EXPECT_EQ(bed.delivered.size(), 2u);
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

TEST(Broker, RefusesExecutorsThatDoNotFit) {
  BrokerBed bed;
  bed.Join("host");
  EXPECT_THAT(bed.broker.AddExecutor(SmallOffer("host"), bed.now).error().message,
              HasSubstr("already connected"));
  ExecutorOffer other = SmallOffer("other");
  other.models[0].most_rows = 3;
  EXPECT_THAT(bed.broker.AddExecutor(other, bed.now).error().message, HasSubstr("different tensors"));
  ExecutorOffer small = SmallOffer("small");
  small.slices[0].input_bytes = 15;  // 4 rows of 4 bytes
  EXPECT_THAT(bed.broker.AddExecutor(small, bed.now).error().message, HasSubstr("do not fit"));
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
  EXPECT_THAT(bed.answers[0], ElementsAre(Status::kNoModel));
  EXPECT_THAT(bed.answers[1], ElementsAre(Status::kNoModel));
  EXPECT_EQ(bed.delivered.size(), 1u) << "the other model would answer with other outputs";
  EXPECT_NE(*bed.broker.FindModel("m"), old) << "a client's number names what it was told of";
}

}  // namespace
}  // namespace spillway::gateway
