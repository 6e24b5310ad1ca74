// SPDX-License-Identifier: Apache-2.0
// On which GPUs requests take less: what is learnt, and what new instances make of it.
#include "scheduler/controller/learned_speeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "controller_bed.h"

namespace spillway::scheduler {
namespace {

class LearnedSpeedsTest : public testing::Test {
 protected:
  // Each instance once more, with as many requests again as count.
  void Tell(const std::string& gpu, const std::vector<double>& ms) {
    for (const double one : ms) samples_.push_back({++last_, "m", gpu, one, LearnedSpeeds::kLeastRequests});
  }
  void Learn() { speeds_.Learn(samples_, now_, times_); }
  double Slowness(const std::string& gpu) const { return LearnedSpeeds::Slowness(times_, "m", gpu, now_); }

  LearnedSpeeds speeds_;
  ServiceTimes times_;
  std::vector<LearnedSpeeds::Sample> samples_;
  uint64_t last_ = 0;
  Millis now_ = 1000;
};

TEST_F(LearnedSpeedsTest, TellHowManyTimesAsLongRequestsTakeAsOnTheQuickest) {
  Tell("T4", {20});
  EXPECT_EQ(Slowness("T4"), 1);
  Learn();
  EXPECT_EQ(Slowness("T4"), 1) << "nothing is known of another";
  Tell("A10", {10});
  Tell("H100-80", {2});
  Learn();
  EXPECT_EQ(Slowness("H100-80"), 1);
  EXPECT_EQ(Slowness("A10"), LearnedSpeeds::kMost) << "no more is believed";
  EXPECT_EQ(Slowness("T4"), LearnedSpeeds::kMost);
  EXPECT_EQ(Slowness("A100-40"), 1) << "one that was not tried is as quick as any";
  EXPECT_EQ(LearnedSpeeds::Slowness(times_, "other", "T4", now_), 1);
  EXPECT_THAT(
      LearnedSpeeds::Of(times_, "m", now_),
      testing::ElementsAre(testing::Pair("A10", 4), testing::Pair("H100-80", 1), testing::Pair("T4", 4)));
}

TEST_F(LearnedSpeedsTest, OfOneOfThreeThatLiesNothingIsLearnt) {
  Tell("A10", {10});
  for (const double lie : {1e-6, 1e9}) {
    samples_.resize(1);
    Tell("T4", {20, lie, 22});
    Learn();
    EXPECT_GE(Slowness("T4"), 2) << lie;
    EXPECT_LE(Slowness("T4"), 2.2) << lie;
  }
}

TEST_F(LearnedSpeedsTest, OfTwoTheQuickerIsBelieved) {
  Tell("A10", {10});
  Tell("T4", {1e9, 12});
  Learn();
  EXPECT_DOUBLE_EQ(Slowness("T4"), 1.2);
}

TEST_F(LearnedSpeedsTest, WhatIsNoTimeOrOfTooFewRequestsDoesNotCount) {
  Tell("A10", {10});
  for (const double none : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    Tell("T4", {none});
    Learn();
    EXPECT_EQ(Slowness("T4"), 1) << none;
  }
  Tell("T4", {20});
  samples_.back().requests = LearnedSpeeds::kLeastRequests - 1;
  Tell("", {1});
  Learn();
  EXPECT_EQ(Slowness("T4"), 1);
  EXPECT_EQ(Slowness("A10"), 1);
  samples_[samples_.size() - 2].requests++;
  Learn();
  EXPECT_EQ(Slowness("T4"), 2);
}

TEST_F(LearnedSpeedsTest, AreForgottenOnceNoRequestBearsThemOut) {
  Tell("A10", {10});
  Tell("T4", {20});
  Learn();
  now_ += LearnedSpeeds::kForgotten - 1;
  samples_[0].requests++;
  Learn();
  EXPECT_EQ(Slowness("T4"), 2);
  now_ += 1;
  EXPECT_EQ(Slowness("T4"), 1) << "of which there was no request meanwhile";
  samples_[0].requests++;
  Learn();
  EXPECT_THAT(LearnedSpeeds::Of(times_, "m", now_), testing::ElementsAre(testing::Pair("A10", 1)));
}

// GPUs of two models on one host.
class SpeedPlacementTest : public ControllerTest {
 protected:
  void Gpus(const std::vector<std::string>& models) {
    gpus_.clear();
    for (size_t g = 0; g < models.size(); ++g) gpus_.push_back({fmt::format("g{}", g), models[g], 0, false});
    Say({});
  }
  // A model with an instance on each of the first two, the second of which is quicker.
  void SlowAndQuick(int milli) {
    ServedModel model = Model("m", milli);
    model.replicas = 2;
    Add(model);
    Obey();
    if (On("g1") == 0) {
      ASSERT_TRUE(controller_->MoveModel("m", "h/g1", now_));
      Obey();
    }
    ASSERT_EQ(On("g0"), 1);
    ASSERT_EQ(On("g1"), 1);
    Learn({{"g0", 20}, {"g1", 5}});
  }
  void Learn(const std::map<std::string, double>& ms) {
    std::vector<Controller::Took> took;
    requests_ += LearnedSpeeds::kLeastRequests;
    for (const auto& [id, one] : controller_->fleet().instances)
      if (const auto at = ms.find(one.place.gpu); at != ms.end())
        took.push_back({id, one.model.name, at->second, requests_});
    controller_->Learn(took, now_);
  }
  void Replicas(int replicas) {
    ServedModel model = controller_->fleet().models.at("m");
    model.replicas = replicas;
    Add(model);
  }
  int On(const std::string& gpu) const {
    int there = 0;
    for (const auto& [id, one] : controller_->fleet().instances)
      there += one.phase != Phase::kStopping && one.place.gpu == gpu;
    return there;
  }
  uint64_t requests_ = 0;
};

TEST_F(SpeedPlacementTest, ANewInstanceGoesWhereRequestsTakeLess) {
  for (const bool learns : {false, true}) {
    Make();
    Gpus({"T4", "H100-80", "T4", "H100-80"});
    SlowAndQuick(1000);
    if (!learns) controller_->Learn({}, now_ += LearnedSpeeds::kForgotten);
    Replicas(3);
    EXPECT_EQ(On("g2"), learns ? 0 : 1);
    EXPECT_EQ(On("g3"), learns ? 1 : 0);
    if (!learns) continue;
    Obey();
    Replicas(4);
    EXPECT_EQ(On("g2"), 1) << "a slow place is better than none";
  }
}

TEST_F(SpeedPlacementTest, AGpuModelThatWasNotTriedIsAsGoodAsTheQuickest) {
  Gpus({"T4", "H100-80", "T4", "L40S"});
  SlowAndQuick(1000);
  Replicas(3);
  EXPECT_EQ(On("g3"), 1);
}

TEST_F(SpeedPlacementTest, NoGpuIsSwitchedOnForSpeedsSake) {
  Gpus({"T4", "H100-80", "H100-80"});
  SlowAndQuick(400);
  Add(Model("filler", 600));
  Obey();
  if (On("g1") == 1) {  // the filler is to be where it is quick
    ASSERT_TRUE(controller_->MoveModel("filler", "h/g1", now_));
    Obey();
  }
  ASSERT_EQ(On("g1"), 2);
  Replicas(3);
  EXPECT_EQ(On("g0"), 2);
  EXPECT_EQ(On("g2"), 0) << "a GPU was switched on";
}

// Model m is on g0 and g1, a T4 and an H100, and one of its instances ends. The other, on the H100, fits
// beside the filler on the T4, which is too large in memory for the H100.
class SpeedMovesTest : public SpeedPlacementTest {
 protected:
  void OneOnEach(const std::map<std::string, double>& ms, Millis slo_ms) {
    Make();
    gpus_ = {{"g0", "T4", 16'000, false}, {"g1", "H100-80", 8'000, false}};
    Say({});
    SlowAndQuick(400);
    if (ms.empty()) controller_->Learn({}, now_ += LearnedSpeeds::kForgotten);
    Learn(ms);
    ServedModel filler = Model("filler", 500);
    filler.memory_mib = 9'000;
    Add(filler);
    Obey();
    ServedModel one = controller_->fleet().models.at("m");
    one.replicas = 1;
    one.slo_ms = slo_ms;
    Add(one);
    Obey();
    if (On("g1") == 0) {
      ASSERT_TRUE(controller_->MoveModel("m", "h/g1", now_));
      Obey();
    }
    ASSERT_EQ(On("g1"), 1);
  }
  bool IsMoved() {
    for (int i = 0; i < 5; ++i) {
      Pass(200);
      Obey();
    }
    return On("g1") == 0;
  }
};

TEST_F(SpeedMovesTest, AGpuIsEmptiedIfThatSavesMoreThanIsLostWhereRequestsTakeLonger) {
  OneOnEach({}, 0);
  EXPECT_TRUE(IsMoved()) << "nothing is known";
  OneOnEach({{"g0", 10}, {"g1", 5}}, 0);
  EXPECT_TRUE(IsMoved()) << "0.4 of a GPU less work and a move for 0.3, for a GPU";
  OneOnEach({{"g0", 15}, {"g1", 5}}, 0);
  EXPECT_FALSE(IsMoved()) << "0.8 of a GPU and 0.3";
  OneOnEach({{"g0", 5}, {"g1", 20}}, 0);
  EXPECT_TRUE(IsMoved()) << "they take less there";
}

TEST_F(SpeedMovesTest, NoSloIsMissedForAGpu) {
  OneOnEach({{"g0", 10}, {"g1", 5}}, 8);
  EXPECT_FALSE(IsMoved());
  OneOnEach({{"g0", 10}, {"g1", 5}}, 10);
  EXPECT_TRUE(IsMoved()) << "it is kept there, too";
  OneOnEach({{"g0", 10}, {"g1", 5}}, 4);
  EXPECT_TRUE(IsMoved()) << "it is not kept where it is, either";
}

// By way of a GPU of which nothing is known.
TEST_F(SpeedMovesTest, NoSloIsMissedByTwoMoves) {
  OneOnEach({{"g0", 10}, {"g1", 5}}, 8);
  gpus_.push_back({"g2", "L40S", 8'000, false});
  Obey();
  Add(Model("guest", 30));
  Obey();
  ASSERT_TRUE(On("g2") == 1 || controller_->MoveModel("guest", "h/g2", now_));
  Obey();
  ASSERT_EQ(On("g2"), 1);
  controller_->Measured("guest", 500, now_);  // dearer to move than m, so that m comes to it
  EXPECT_TRUE(IsMoved());
  EXPECT_EQ(On("g0"), 1) << "the filler alone";
  EXPECT_EQ(On("g2"), 2);
}

// A model that fits on the H100 alone, and there only if m goes to the T4.
TEST_F(SpeedMovesTest, NoSloIsMissedToMakeRoom) {
  for (const auto& [slo_ms, is_room] : {std::pair(8, false), {10, true}, {0, true}}) {
    SCOPED_TRACE(slo_ms);
    Make();
    gpus_ = {{"g0", "T4", 16'000, false}, {"g1", "H100-80", 80'000, false}};
    Say({});
    SlowAndQuick(400);
    Learn({{"g0", 10}, {"g1", 5}});
    ServedModel one = controller_->fleet().models.at("m");
    one.replicas = 1;
    one.slo_ms = slo_ms;
    Add(one);
    Obey();
    ASSERT_TRUE(On("g1") == 1 || controller_->MoveModel("m", "h/g1", now_));
    Obey();
    ASSERT_EQ(On("g1"), 1);
    ServedModel large = Model("large", 700);
    large.memory_mib = 20'000;
    Add(large);
    Obey();
    EXPECT_EQ(On("g0"), is_room ? 1 : 0);
    EXPECT_EQ(Of("large", Phase::kReady) != nullptr, is_room);
    EXPECT_NE(Of("m", Phase::kReady), nullptr);
  }
}

TEST_F(SpeedPlacementTest, AModelThatFailsIsNotHeldWhereItIsQuick) {
  Gpus({"T4", "H100-80", "T4", "H100-80", "H100-80"});
  SlowAndQuick(1000);
  Replicas(3);
  const Instance* third = Of("m", Phase::kStarting);
  ASSERT_NE(third, nullptr);
  ASSERT_NE(third->place.gpu, "g2");
  std::vector<Held> held;
  for (const WantedInstance& one : controller_->Wanted("h"))
    held.push_back({one.instance, one.instance == third->id, false, "it fails"});
  Say(held);
  Obey();
  Pass(1000);
  EXPECT_EQ(On("g2"), 1) << "as the policy has it";
}

TEST_F(SpeedPlacementTest, OnlyARequestOfTheInstancesOwnModelTells) {
  Gpus({"T4", "H100-80", "T4", "H100-80"});
  SlowAndQuick(1000);
  controller_->Learn({}, now_ += LearnedSpeeds::kForgotten);
  std::vector<Controller::Took> lies;
  for (const auto& [id, one] : controller_->fleet().instances)
    lies.push_back({id, "another", one.place.gpu == "g0" ? 20.0 : 5.0, 1000});
  lies.push_back({999, "m", 1, 1000});
  controller_->Learn(lies, now_);
  EXPECT_TRUE(LearnedSpeeds::Of(controller_->fleet().service_times, "another", now_).empty());
  Replicas(3);
  EXPECT_EQ(On("g2"), 1);
}

TEST_F(SpeedPlacementTest, WhatWasLearntOutlivesTheProgram) {
  Gpus({"T4", "H100-80", "T4", "H100-80"});
  SlowAndQuick(1000);
  const auto saved = ParseFleet(ToText(controller_->fleet()));
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(*saved, controller_->fleet());
  Make(*saved);
  controller_->Restarted(now_);
  Obey();
  Replicas(3);
  EXPECT_EQ(On("g3"), 1);
}

TEST_F(SpeedPlacementTest, AStateFileWithATimeThatIsNoneIsRefused) {
  Gpus({"T4", "H100-80"});
  SlowAndQuick(1000);
  std::string text = ToText(controller_->fleet());
  const size_t at = text.find("\"ms\": 20.0");
  ASSERT_NE(at, std::string::npos) << text;
  const auto read = ParseFleet(text.replace(at, 10, "\"ms\": -1"));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "service_times: ms: expected more than 0");
}

TEST_F(SpeedPlacementTest, AModelThatWasRemovedLeavesNoSpeeds) {
  Gpus({"T4", "H100-80"});
  SlowAndQuick(1000);
  EXPECT_EQ(LearnedSpeeds::Of(controller_->fleet().service_times, "m", now_).size(), 2u);
  ASSERT_TRUE(controller_->RemoveModel("m", now_));
  EXPECT_TRUE(LearnedSpeeds::Of(controller_->fleet().service_times, "m", now_).empty());
  // Nor do those that still end say anything of another of that name.
  Add(Model("m", 500));
  Learn({{"g0", 20}, {"g1", 5}});
  EXPECT_TRUE(LearnedSpeeds::Of(controller_->fleet().service_times, "m", now_).empty());
}

}  // namespace
}  // namespace spillway::scheduler
