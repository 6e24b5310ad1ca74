// SPDX-License-Identifier: Apache-2.0
// The controller when hosts are lost, when it is begun again, and when clocks are wrong.
#include <gmock/gmock.h>

#include "controller_bed.h"

namespace spillway::scheduler {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(ControllerTest, AHostThatIsLostInMidMoveEndsTheMoveAndNotTheModel) {
  Host(1);
  Add(Model("a", 500));
  Obey();
  controller_->HostSays("other", {{"g0", "A100-40", 0, true}}, {}, 1, now_);
  ASSERT_TRUE(controller_->MoveModel("a", "other/g0", now_));
  controller_->HostLost("other", now_);
  ASSERT_NE(Of("a", Phase::kReady), nullptr);
  EXPECT_THAT(controller_->Wanted("other"), IsEmpty());
  EXPECT_THAT(controller_->MoveModel("a", "other/g0", now_).error().message, HasSubstr("other/g0"));
}

TEST_F(ControllerTest, AHostIsForgottenOnceItIsLostAndNothingIsOnIt) {
  Host(1);
  Add(Model("m", 500));
  Obey();
  EXPECT_FALSE(controller_->ForgetHost("h", now_)) << "it is up";
  controller_->HostLost("h", now_);
  EXPECT_FALSE(controller_->ForgetHost("h", now_)) << "its instance may serve yet";
  EXPECT_FALSE(controller_->ForgetHost("nobody", now_));
  Say({});
  EXPECT_TRUE(controller_->RemoveModel("m", now_));
  Obey();
  controller_->HostLost("h", now_);
  EXPECT_TRUE(controller_->ForgetHost("h", now_));
  EXPECT_TRUE(controller_->fleet().hosts.empty());
}

TEST_F(ControllerTest, ExecutorsOfALostHostServeOnUntilTheyLeave) {
  Host(1);
  Add(Model("a", 500));
  Obey();
  controller_->HostLost("h", now_);
  Pass(60'000);
  ASSERT_NE(Of("a", Phase::kReady), nullptr);
  controller_->HostSays("other", {{"g0", "A100-40", 0, true}}, {}, 1, now_);
  controller_->Left(Of("a", Phase::kReady)->id, now_);
  Pass(60'000);
  EXPECT_EQ(controller_->Wanted("other").size(), 1u);
}

TEST_F(ControllerTest, WhatALostHostWasToEndHoldsUpNoMoveAndTakesNoGpu) {
  Host(2);
  Spread();
  controller_->HostSays("other", {{"g0", "A100-40", 0, true}}, {}, 1, now_);
  Add(Model("c", 1000));
  ASSERT_EQ(controller_->Wanted("other").size(), 1u);
  controller_->HostLost("other", now_);
  ASSERT_TRUE(controller_->RemoveModel("c", now_));
  ASSERT_NE(Of("c", Phase::kStopping), nullptr);
  EXPECT_EQ(controller_->GpusOn(), 2u);
  Pass(options_.settle);
  Obey();
  EXPECT_EQ(controller_->GpusOn(), 1u);
  // It keeps its place until the host is back and says that nothing is left.
  ASSERT_NE(Of("c", Phase::kStopping), nullptr);
  controller_->HostSays("other", {{"g0", "A100-40", 0, true}}, {}, controller_->fleet().revision, now_);
  EXPECT_EQ(Of("c", Phase::kStopping), nullptr);
}

TEST_F(ControllerTest, WhatALostGpuServedIsServedElsewhereUntilItIsBack) {
  Host(2);
  Add(Model("a", 700));
  Obey();
  ASSERT_EQ(Of("a", Phase::kReady)->place.gpu, "g0");
  const uint64_t old = Of("a", Phase::kReady)->id;
  gpus_[0].lost = "it fell off the bus";
  Say({{old}});
  EXPECT_EQ(controller_->fleet().model_troubles.at("a").why, "GPU g0 of h: it fell off the bus");
  Pass(options_.back_off);
  ASSERT_EQ(controller_->Wanted("h").size(), 1u);
  EXPECT_EQ(controller_->Wanted("h")[0].place.gpu, "g1");
  // The old one hangs, which holds up nobody, and keeps its place when the GPU is back.
  const auto next = controller_->Wanted("h")[0].instance;
  controller_->Joined(next, now_);
  EXPECT_EQ(controller_->GpusOn(), 1u);
  EXPECT_THAT(controller_->MoveModel("a", "h/g0", now_).error().message, HasSubstr("h/g0"));
  gpus_[0].lost.clear();
  Say({{old}, {next}});
  EXPECT_EQ(controller_->GpusOn(), 2u);
  Add(Model("b", 600));
  EXPECT_EQ(Of("b", Phase::kStarting), nullptr);
  Say({{next}});
  ASSERT_NE(Of("b", Phase::kStarting), nullptr);
  EXPECT_EQ(Of("b", Phase::kStarting)->place.gpu, "g0");
}

TEST_F(ControllerTest, AHostThatWasStoppedIsNotUp) {
  Host(1);
  gpus_.clear();
  Say({});
  Add(Model("a", 500));
  EXPECT_EQ(controller_->fleet().model_troubles.at("a").why, "no host is up");
}

TEST_F(ControllerTest, WhatHangsOnALostGpuHoldsUpNoMoveOfOthers) {
  Host(3);
  Spread();
  Add(Model("c", 1000));
  Obey();
  ASSERT_EQ(Of("c", Phase::kReady)->place.gpu, "g2");
  ASSERT_TRUE(controller_->RemoveModel("c", now_));
  gpus_[2].lost = "its driver has not answered for 10 s";
  std::vector<Held> held;
  for (const auto& [id, one] : controller_->fleet().instances) held.push_back({id});
  Say(held);
  controller_->Left(Of("c", Phase::kDraining) ? Of("c", Phase::kDraining)->id : 0, now_);
  ASSERT_NE(Of("c", Phase::kStopping), nullptr);
  Pass(options_.settle);
  ASSERT_EQ(controller_->fleet().planned.size() + controller_->Wanted("h").size(), 3u) << "no move was begun";
  Fleet fleet = controller_->fleet();
  for (auto& [name, host] : fleet.hosts) host.agent = "agent of " + name;
  EXPECT_TRUE(*ParseFleet(ToText(fleet)) == fleet);
}

TEST_F(ControllerTest, WhatEndsInGoodOrderOnAHostThatLeavesIsWaitedFor) {
  Host(1);
  Add(Model("a", 500));
  Obey();
  const uint64_t one = Of("a", Phase::kReady)->id;
  gpus_.clear();
  Say({{one}});
  ASSERT_NE(Of("a", Phase::kStopping), nullptr);
  EXPECT_FALSE(IsStranded(controller_->fleet(), *Of("a", Phase::kStopping)));
  EXPECT_EQ(controller_->GpusOn(), 1u);
}

// Its process does not die, or its slice is not given back.
TEST_F(ControllerTest, WhatDoesNotEndHoldsUpMovesOfOthersForAWhileAlone) {
  Host(3);
  Spread();
  Add(Model("c", 1000));
  Obey();
  const uint64_t stuck = Of("c", Phase::kReady)->id;
  ASSERT_TRUE(controller_->RemoveModel("c", now_));
  controller_->Left(stuck, now_);
  ASSERT_NE(Of("c", Phase::kStopping), nullptr);
  Pass(20'000);  // a host kills it after 15 s
  EXPECT_EQ(controller_->Wanted("h").size(), 2u);
  Pass(20'000);
  EXPECT_EQ(controller_->Wanted("h").size(), 3u) << "no move was begun";
  ASSERT_NE(Of("c", Phase::kStopping), nullptr);
  EXPECT_EQ(controller_->GpusOn(), 3u) << "its GPU is not free";
}

TEST_F(ControllerTest, AfterARestartWhoDoesNotComeBackIsReplaced) {
  Host(2);
  Add(Model("a", 500));
  Obey();
  const auto saved = ParseFleet(ToText(controller_->fleet()));
  ASSERT_TRUE(saved);
  Make(*saved);
  controller_->Restarted(now_);
  const uint64_t old = Of("a", Phase::kReady)->id;
  Pass(options_.start_limit + 1);
  EXPECT_EQ(controller_->fleet().instances.at(old).phase, Phase::kStopping);
  Pass(options_.back_off);
  EXPECT_NE(Of("a", Phase::kStarting), nullptr);
}

TEST_F(ControllerTest, AfterARestartNobodyEndsBeforeItsReplacementIsSeenAgain) {
  Host(2);
  Add(Model("a", 500));
  Obey();
  ASSERT_TRUE(controller_->MoveModel("a", "", now_));
  controller_->Joined(Of("a", Phase::kStarting)->id, now_);
  const uint64_t old = Of("a", Phase::kDraining)->id;
  const auto saved = ParseFleet(ToText(controller_->fleet()));
  ASSERT_TRUE(saved);
  Make(*saved);
  controller_->Restarted(now_);
  controller_->Idle(old, now_);
  EXPECT_EQ(controller_->fleet().instances.at(old).phase, Phase::kDraining);
  Pass(options_.start_limit + 1);  // it does not come back
  EXPECT_EQ(controller_->fleet().instances.at(old).phase, Phase::kReady);
}

TEST_F(ControllerTest, AHostThatGoesWithManyReplicasDelaysTheirModelByOneFailure) {
  Host(2);
  ServedModel model = Model("a", 250);
  model.replicas = 8;
  Add(model);
  Obey();
  ASSERT_EQ(controller_->Wanted("h").size(), 8u);
  std::vector<uint64_t> ids;
  for (const auto& [id, one] : controller_->fleet().instances) ids.push_back(id);
  controller_->HostLost("h", now_);
  for (const uint64_t id : ids) controller_->Left(id, now_);
  controller_->HostSays("other", {{"g0", "A100-40", 0, true}, {"g1", "A100-40", 0, true}}, {}, 1, now_);
  Pass(options_.back_off + 1);
  EXPECT_EQ(controller_->Wanted("other").size(), 8u);
}

TEST_F(ControllerTest, OfTooManyReplicasThoseEndThatDoNotServe) {
  Host(2);
  ServedModel model = Model("a", 500);
  model.replicas = 2;
  Add(model);
  ASSERT_EQ(controller_->Wanted("h").size(), 2u);
  const uint64_t younger = controller_->fleet().instances.rbegin()->first;
  controller_->Joined(younger, now_);
  model.replicas = 1;
  Add(model);
  ASSERT_NE(Of("a", Phase::kReady), nullptr);
  EXPECT_EQ(Of("a", Phase::kReady)->id, younger);
  EXPECT_EQ(Of("a", Phase::kStarting), nullptr);
}

TEST_F(ControllerTest, LessThanAMoveAnHourIsSavedUp) {
  options_.moves_per_hour = 0.5;
  Make();
  Host(2);
  Spread();
  Pass(1'800'000);  // of 0.5 to 0.75
  Obey();
  EXPECT_EQ(controller_->GpusOn(), 2u);
  Pass(1'800'000);
  Obey();
  EXPECT_EQ(controller_->GpusOn(), 1u);
}

TEST_F(ControllerTest, AClockThatWasAheadAndIsSetRightStopsNothing) {
  for (const bool is_begun_anew : {false, true}) {
    now_ = 0;
    Make();
    Host(2);
    Add(Model("a", 500));
    Pass(Millis{400} * 24 * 3'600'000);  // where a limit runs from
    ASSERT_EQ(Of("a", Phase::kStarting), nullptr);
    Say({});
    now_ = 1000;
    if (is_begun_anew) {
      const auto saved = ParseFleet(ToText(controller_->fleet()));
      ASSERT_TRUE(saved);
      Make(*saved);
      controller_->Restarted(now_);
    }
    Pass(1);
    Pass(options_.back_off);
    ASSERT_NE(Of("a", Phase::kStarting), nullptr) << is_begun_anew;
    Pass(options_.start_limit + 1);
    EXPECT_EQ(Of("a", Phase::kStarting), nullptr) << is_begun_anew;
  }
}

TEST_F(ControllerTest, TimeGoesOnWhileTheProgramIsAway) {
  Host(1);
  Add(Model("a", 500));
  Obey();
  Pass(1000);
  const Fleet before = controller_->fleet();
  Make(before);
  controller_->Restarted(now_ += 60'000);
  EXPECT_EQ(controller_->fleet().now, before.now + 60'000);
  EXPECT_EQ(controller_->fleet().gpu_ms, before.gpu_ms + 60'000);
}

}  // namespace
}  // namespace spillway::scheduler
