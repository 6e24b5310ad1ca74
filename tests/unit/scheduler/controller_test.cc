// SPDX-License-Identifier: Apache-2.0
#include "scheduler/controller/controller.h"

#include <gmock/gmock.h>

#include "controller_bed.h"

namespace spillway::scheduler {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(ControllerTest, AModelIsPlacedWhenAHostComesAndGoesWithItsSlice) {
  Add(Model("a", 500));
  EXPECT_EQ(instances(), 0u);
  EXPECT_THAT(controller_->fleet().model_troubles.at("a").why, HasSubstr("no host is up"));
  Host(1);
  ASSERT_NE(Of("a", Phase::kStarting), nullptr);
  EXPECT_THAT(controller_->fleet().model_troubles, IsEmpty()) << "there is room now";
  Obey();
  ASSERT_NE(Of("a", Phase::kReady), nullptr);
  ASSERT_TRUE(controller_->RemoveModel("a", now_));
  ASSERT_NE(Of("a", Phase::kDraining), nullptr);
  EXPECT_EQ(controller_->GpusOn(), 1u);
  Obey();
  EXPECT_EQ(instances(), 0u);
  EXPECT_EQ(controller_->GpusOn(), 0u);
}

TEST_F(ControllerTest, ReplicasThatFitNowhereAreLookedForOnceUntilSomethingChanges) {
  Host(1);
  ServedModel model = Model("a", 500);
  model.replicas = 1000;
  Add(model);
  Obey();
  EXPECT_EQ(instances(), 2u);
  uint64_t before = controller_->searches();
  for (int turn = 0; turn < 50; ++turn) Pass(100);
  EXPECT_EQ(controller_->searches(), before);
  Add(Model("b", 1000));
  EXPECT_LE(controller_->searches(), before + 2);  // one of each model
  before = controller_->searches();
  Host(2);
  EXPECT_EQ(controller_->Wanted("h").size(), 4u);  // of a, on the new GPU
  EXPECT_LE(controller_->searches(), before + 4);
}

TEST_F(ControllerTest, AMoveToAGpuThatIsNotThereNamesSomeThatAre) {
  Host(1);
  Add(Model("a", 500));
  Obey();
  const auto refusal = [&] { return controller_->MoveModel("a", "h/g9", now_).error().message; };
  EXPECT_EQ(refusal(), "GPU h/g9 does not exist or cannot be used now; no other GPU can be used");
  Host(3);
  Obey();
  EXPECT_EQ(refusal(), "GPU h/g9 does not exist or cannot be used now; others are h/g1, h/g2");
  Host(9);
  Obey();
  EXPECT_EQ(
      refusal(),
      "GPU h/g9 does not exist or cannot be used now; others are h/g1, h/g2, h/g3, h/g4, h/g5 and 3 more");
}

// A turn in which thousands were placed would answer nobody for seconds.
TEST_F(ControllerTest, ManyReplicasArePlacedInSeveralTurnsInWhichOtherModelsComeToo) {
  Host(10);
  ServedModel model = Model("a", 10);
  model.replicas = Controller::kEffortPerTurn * 3;
  Add(model);
  EXPECT_EQ(instances(), static_cast<size_t>(Controller::kEffortPerTurn));
  EXPECT_TRUE(controller_->HasMore());
  Add(Model("b", 10));
  Say({});
  EXPECT_EQ(instances(), static_cast<size_t>(Controller::kEffortPerTurn)) << "events of one turn";
  Pass(0);
  EXPECT_EQ(instances(), static_cast<size_t>(Controller::kEffortPerTurn) * 2);
  EXPECT_TRUE(controller_->HasMore());
  Pass(0);
  Pass(0);
  EXPECT_FALSE(controller_->HasMore());
  EXPECT_EQ(instances(), static_cast<size_t>(model.replicas) + 1);
  EXPECT_NE(Of("b", Phase::kStarting), nullptr);
}

TEST_F(ControllerTest, ModelsThatFitNowhereKeepNoOtherFromItsTurn) {
  options_.is_moving = false;
  Make();
  Host(1);
  Add(Model("a", 900));
  for (int i = 0; i < Controller::kEffortPerTurn + 10; ++i) Add(Model(fmt::format("large{}", i), 1000));
  Add(Model("z", 10));
  for (int turn = 0; turn < 3; ++turn) {
    controller_->Measured("a", turn, now_);  // whoever waits is looked at again
    Pass(0);
  }
  EXPECT_NE(Of("z", Phase::kStarting), nullptr);
}

TEST_F(ControllerTest, AGpuThatRefusedIsTriedAgainWhenItsTimeHasComeThoughNothingElseChanged) {
  Host(1);
  Add(Model("a", 500));
  Say({{Of("a", Phase::kStarting)->id, true, true, "MIG: in use by another client"}});
  Say({});
  Pass(options_.back_off / 2);
  EXPECT_EQ(Of("a", Phase::kStarting), nullptr);
  Pass(options_.back_off);
  EXPECT_NE(Of("a", Phase::kStarting), nullptr);
}

TEST_F(ControllerTest, AGpuIsFreedByAMoveThatBeginsTheNewOneFirst) {
  Host(2);
  Spread();
  Pass(options_.settle);
  const Fleet& fleet = controller_->fleet();
  const auto mover = std::find_if(fleet.instances.begin(), fleet.instances.end(),
                                  [](const auto& entry) { return entry.second.replaces != 0; });
  ASSERT_NE(mover, fleet.instances.end());
  const uint64_t old = mover->second.replaces, next = mover->first;
  Pass(1);
  EXPECT_EQ(fleet.instances.at(old).phase, Phase::kReady);
  controller_->Joined(next, now_);
  EXPECT_EQ(fleet.instances.at(old).phase, Phase::kDraining);
  EXPECT_EQ(fleet.moves_done, 1u);  // the operator's
  controller_->Idle(old, now_);
  EXPECT_EQ(fleet.instances.at(old).phase, Phase::kStopping);
  EXPECT_EQ(fleet.moves_done, 2u);
  Obey();
  EXPECT_EQ(controller_->GpusOn(), 1u);
}

TEST_F(ControllerTest, AMoveWaitsUntilTheOneInItsWayHasLeft) {
  Host(3);
  for (const auto& [name, milli] : {std::pair("y", 500), {"s", 300}, {"z", 700}, {"x", 500}}) {
    Add(Model(name, milli));
    Obey();
  }
  ASSERT_EQ(controller_->GpusOn(), 3u);
  // x has room beside y once s is beside z.
  Pass(options_.settle);
  EXPECT_NE(Of("s", Phase::kStarting), nullptr);
  EXPECT_EQ(Of("x", Phase::kStarting), nullptr);
  EXPECT_EQ(controller_->fleet().planned.size(), 1u);
  Obey();
  Obey();
  EXPECT_EQ(controller_->GpusOn(), 2u);
  EXPECT_EQ(controller_->fleet().moves_done, 2u);
}

TEST_F(ControllerTest, AModelThatFitsNowhereFindsRoomByAnothersMove) {
  Host(2);
  for (const auto& [name, milli] : {std::pair("a", 300), {"b", 300}, {"c", 400}}) {
    Add(Model(name, milli));
    Obey();
  }
  ASSERT_TRUE(controller_->MoveModel("c", "h/g1", now_));
  Obey();
  Add(Model("d", 700));
  EXPECT_EQ(Of("d", Phase::kStarting), nullptr);
  Obey();
  Obey();
  ASSERT_NE(Of("d", Phase::kReady), nullptr);
  EXPECT_EQ(instances(), 4u);
  for (const char* name : {"a", "b", "c"}) EXPECT_NE(Of(name, Phase::kReady), nullptr) << name;
}

TEST_F(ControllerTest, ModelsWhoseMovesCostTimeStayWhereTheyAre) {
  for (const Millis downtime : {0, 5000}) {
    Make();
    Host(2);
    Spread();
    for (const char* name : {"a", "b"}) controller_->Measured(name, downtime, now_);
    Pass(options_.settle);
    EXPECT_EQ(instances(), downtime == 0 ? 3u : 2u) << downtime;
  }
}

TEST_F(ControllerTest, AMoveWhoseNewInstanceNeverBecomesReadyLeavesTheOldOneInService) {
  Host(2);
  Add(Model("a", 500));
  Obey();
  ASSERT_TRUE(controller_->MoveModel("a", "", now_));
  ASSERT_NE(Of("a", Phase::kStarting), nullptr);
  Pass(options_.start_limit + 1);
  ASSERT_NE(Of("a", Phase::kReady), nullptr);
  ASSERT_NE(Of("a", Phase::kStopping), nullptr);
  EXPECT_EQ(controller_->fleet().moves_failed, 1u);
  EXPECT_THAT(controller_->fleet().model_troubles.at("a").why, HasSubstr("not ready within"));
  Obey();
  EXPECT_EQ(instances(), 1u);
}

TEST_F(ControllerTest, ANewInstanceThatDiesWhileTheOldOneDrainsGivesTheOldOneItsRequestsBack) {
  Host(2);
  Add(Model("a", 500));
  Obey();
  ASSERT_TRUE(controller_->MoveModel("a", "", now_));
  const uint64_t next = Of("a", Phase::kStarting)->id;
  controller_->Joined(next, now_);
  ASSERT_NE(Of("a", Phase::kDraining), nullptr);
  controller_->Left(next, now_);
  ASSERT_NE(Of("a", Phase::kReady), nullptr);
  EXPECT_EQ(Of("a", Phase::kDraining), nullptr);
}

TEST_F(ControllerTest, AModelThatIsAddedAgainWhileItDrainsIsNotBegunAnew) {
  Host(2);
  Add(Model("a", 500));
  Obey();
  const uint64_t old = Of("a", Phase::kReady)->id;
  ASSERT_TRUE(controller_->RemoveModel("a", now_));
  Add(Model("a", 500));
  ASSERT_EQ(instances(), 1u);
  EXPECT_EQ(Of("a", Phase::kReady)->id, old);
}

TEST_F(ControllerTest, AGpuThatRefusesASliceIsLeftAloneForAWhile) {
  Host(2);
  Add(Model("a", 500));
  const Instance first = *Of("a", Phase::kStarting);
  Say({{first.id, true, true, "MIG: in use by another client"}});
  EXPECT_EQ(Of("a", Phase::kStarting), nullptr);
  Pass(options_.back_off);
  ASSERT_NE(Of("a", Phase::kStarting), nullptr);
  EXPECT_NE(Of("a", Phase::kStarting)->place.gpu, first.place.gpu);
  EXPECT_THAT(controller_->fleet().model_troubles.at("a").why, HasSubstr("in use by another client"));
}

TEST_F(ControllerTest, AModelThatFailsAgainAndAgainIsTriedEverMoreSeldom) {
  Host(2);
  Add(Model("a", 500));
  int starts = 0;
  for (int second = 0; second < 600; ++second) {
    if (const Instance* one = Of("a", Phase::kStarting)) {
      ++starts;
      Say({{one->id, true, false, "exit code 1"}});
      Say({});
    }
    Pass(1000);
  }
  EXPECT_GT(starts, 8);
  EXPECT_LT(starts, 20);
}

TEST_F(ControllerTest, AHostThatIsToldToEndIsNoTroubleOfItsModels) {
  Host(1);
  Add(Model("a", 1000));
  Obey();
  const uint64_t id = Of("a", Phase::kReady)->id;
  controller_->HostSays("h", {}, {{id}}, controller_->fleet().revision, now_);
  EXPECT_NE(Of("a", Phase::kStopping), nullptr);
  for (const auto& [model, trouble] : controller_->fleet().model_troubles)
    EXPECT_EQ(trouble.failures, 0) << model << ": " << trouble.why << ", more than that there is no place";
}

TEST_F(ControllerTest, APlaceIsGivenAgainOnlyWhenItsHostSaysThatNothingIsLeft) {
  Host(1);
  Add(Model("a", 1000));
  Obey();
  const uint64_t old = Of("a", Phase::kReady)->id;
  const uint64_t before = controller_->fleet().revision;
  ASSERT_TRUE(controller_->RemoveModel("a", now_));
  controller_->Idle(old, now_);
  Add(Model("b", 1000));
  // An old word, of before the host heard that it is to end: it may have to begin it yet.
  controller_->HostSays("h", gpus_, {}, before, now_);
  EXPECT_EQ(Of("b", Phase::kStarting), nullptr);
  Say({{old}});
  EXPECT_EQ(Of("b", Phase::kStarting), nullptr);
  Say({});
  EXPECT_NE(Of("b", Phase::kStarting), nullptr);
}

TEST_F(ControllerTest, MovesEndWhenTheBudgetIsSpentAndGoOnWhenItGrows) {
  options_.moves_per_hour = 1;
  Make();
  Host(3);
  Spread();  // at an operator's word, which needs no budget
  Pass(options_.settle);
  Obey();
  ASSERT_EQ(controller_->GpusOn(), 1u);
  ASSERT_TRUE(controller_->MoveModel("b", "h/g2", now_));
  Obey();
  Pass(options_.settle);
  Obey();
  EXPECT_EQ(controller_->GpusOn(), 2u);
  Pass(3'600'000);
  Obey();
  EXPECT_EQ(controller_->GpusOn(), 1u);
}

TEST_F(ControllerTest, MemoryCountsWhereItIsMoreThanTheComputeAskedFor) {
  Host(1, 40'000);
  ServedModel model = Model("a", 100);
  model.memory_mib = 15'000;
  model.replicas = 3;
  Add(model);
  EXPECT_EQ(controller_->Wanted("h").size(), 2u);  // 3 * 15,000 MiB are more than it has
  options_.rules.isolation = Isolation::kFraction;
  Make();
  Host(1, 40'000);
  model.replicas = 1;
  Add(model);
  ASSERT_EQ(controller_->Wanted("h").size(), 1u);
  EXPECT_EQ(controller_->Wanted("h")[0].place.profile, Profile::k3g);  // half of the memory
}

// Or its executor would ask for a part of it, which wants MPS.
TEST_F(ControllerTest, AGpuThatIsNotDividedIsGivenWhole) {
  options_.rules.isolation = Isolation::kFraction;
  Make();
  gpus_ = {{"g0", "A100-40", 0, false}};
  Say({});
  Add(Model("a", 250));
  Obey();
  ASSERT_NE(Of("a", Phase::kReady), nullptr);
  EXPECT_EQ(Of("a", Phase::kReady)->place.milli, 1000);
  Add(Model("b", 250));
  EXPECT_EQ(Of("b", Phase::kStarting), nullptr);
  EXPECT_THAT(controller_->fleet().model_troubles.at("b").why, HasSubstr("a GPU without MIG"));
}

TEST_F(ControllerTest, TwoTenantsAreNeverOnOneGpuWhereThatIsTheRule) {
  options_.rules.isolation = Isolation::kGpu;
  Make();
  Host(1);
  Add(Model("a", 300, "red"));
  Add(Model("b", 300, "blue"));
  ASSERT_EQ(controller_->Wanted("h").size(), 1u);
  ASSERT_TRUE(controller_->RemoveModel("a", now_));
  EXPECT_EQ(Of("b", Phase::kStarting), nullptr);  // a's slice is not given back yet
  Obey();
  EXPECT_NE(Of("b", Phase::kReady), nullptr);
}

TEST_F(ControllerTest, WhatIsNoFleetIsRefusedInALine) {
  for (const char* text : {"", "[]", "{}", "{\"spillway_fleet\": 9}", "{\"spillway_fleet\": \"1\"}"}) {
    const auto read = ParseFleet(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kBadInput);
    EXPECT_EQ(read.error().message.find('\n'), std::string::npos);
  }
  std::string text = ToText(controller_->fleet());
  text.replace(text.find("\"revision\": 1"), 13, "\"revision\": \"x\"");
  EXPECT_FALSE(ParseFleet(text));
}

TEST_F(ControllerTest, OperatorsAreToldWhatIsWrong) {
  Add(Model("a", 500));
  EXPECT_TRUE(controller_->AddModel(Model("a", 500), now_));
  EXPECT_EQ(controller_->AddModel(Model("a", 600), now_).error().code, ErrorCode::kConflict);
  EXPECT_EQ(controller_->AddModel(Model("b", 0), now_).error().code, ErrorCode::kBadInput);
  EXPECT_EQ(controller_->RemoveModel("b", now_).error().message, "model b does not exist");
  EXPECT_EQ(controller_->MoveModel("a", "", now_).error().message, "model a: no instance is ready to move");
  Host(1);
  Obey();
  EXPECT_EQ(controller_->MoveModel("a", "h/g0", now_).error().message, "model a: it is on h/g0 already");
}

}  // namespace
}  // namespace spillway::scheduler
