// SPDX-License-Identifier: Apache-2.0
// Models that programs of the hosts' own serve: they go where a host lists the program.
#include <gmock/gmock.h>

#include <set>
#include <string>

#include "controller_bed.h"
#include "scheduler/controller/node_plan.h"

namespace spillway::scheduler {
namespace {

using testing::HasSubstr;

// Hosts "h", which lists `resnet`, and "k", which lists nothing, of a GPU each.
class HostPrograms : public ControllerTest {
 protected:
  HostPrograms() {
    gpus_ = {{"g0", "A100-40", 40960, true}};
    Say("k", {});
    Say("h", {"resnet"});
  }
  void Say(const std::string& host, const std::set<std::string>& programs) {
    std::vector<Held> held;
    for (const WantedInstance& one : controller_->Wanted(host)) held.push_back({one.instance});
    controller_->HostSays(host, gpus_, held, controller_->fleet().revision, now_, programs);
  }
  static ServedModel Program(const std::string& name, const std::string& program, int milli = 400) {
    ServedModel model = Model(name, milli);
    model.host_program = program;
    return model;
  }
  std::string TroubleOf(const std::string& model) const {
    const auto at = controller_->fleet().model_troubles.find(model);
    return at == controller_->fleet().model_troubles.end() ? "" : at->second.why;
  }
  std::string HostOf(const std::string& model) const {
    for (const auto& [id, one] : controller_->fleet().instances)
      if (one.model.name == model) return one.place.host;
    return "";
  }
};

TEST_F(HostPrograms, AreStartedWhereAHostListsThem) {
  // Wherever the placer puts what may be on either.
  Add(Model("other", 200));
  Add(Program("cats", "resnet"));
  Add(Program("dogs", "resnet"));
  EXPECT_EQ(HostOf("cats"), "h");
  EXPECT_EQ(HostOf("dogs"), "h");
  Add(Program("birds", "resnet"));
  EXPECT_EQ(HostOf("birds"), "") << "a third has no room where the program is";
  EXPECT_EQ(TroubleOf("birds"), "no GPU has room for it");
  Say("k", {"resnet"});
  EXPECT_EQ(HostOf("birds"), "k");
}

TEST_F(HostPrograms, ThatNoHostListsAreWaitedFor) {
  Add(Program("cats", "bert"));
  EXPECT_EQ(HostOf("cats"), "");
  EXPECT_EQ(TroubleOf("cats"), "no host that is up lists the program bert");
  Say("k", {"bert"});
  EXPECT_EQ(HostOf("cats"), "k");
}

TEST_F(HostPrograms, AreNotMovedToAHostWithoutThem) {
  Add(Program("cats", "resnet"));
  for (const WantedInstance& one : controller_->Wanted("h")) controller_->Joined(one.instance, now_);
  const auto moved = controller_->MoveModel("cats", "k/g0", now_);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, ErrorCode::kBadInput);
  EXPECT_EQ(moved.error().message, "model cats: host k does not list the program resnet");
  const auto anywhere = controller_->MoveModel("cats", "", now_);
  ASSERT_FALSE(anywhere);
  EXPECT_EQ(anywhere.error().code, ErrorCode::kConflict);
}

TEST_F(HostPrograms, RunOnWhereTheyAreNoLongerListed) {
  Add(Program("cats", "resnet"));
  for (const WantedInstance& one : controller_->Wanted("h")) controller_->Joined(one.instance, now_);
  Say("h", {});
  ASSERT_NE(Of("cats", Phase::kReady), nullptr);
  Say("k", {"resnet"});
  Pass(10 * options_.settle);
  EXPECT_EQ(HostOf("cats"), "h");
  EXPECT_EQ(instances(), 1u);
}

TEST_F(HostPrograms, OutliveTheController) {
  Add(Program("cats", "resnet"));
  const auto read = ParseFleet(ToText(controller_->fleet()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(*read == controller_->fleet());
  EXPECT_EQ(read->models.at("cats").host_program, "resnet");
  EXPECT_THAT(ToText(*read), HasSubstr("\"spillway_fleet\": 2")) << "gateways of before would forget it";
  ASSERT_TRUE(controller_->RemoveModel("cats", now_));
  EXPECT_THAT(ToText(controller_->fleet()), HasSubstr("\"spillway_fleet\": 1"));
  EXPECT_EQ(read->hosts.at("h").programs, std::set<std::string>{"resnet"});
}

// Two half used GPUs, of which one could be freed were it not for the program.
TEST_F(HostPrograms, AreNotMovedToFreeAGpuWhereTheyAreNotListed) {
  Add(Program("cats", "resnet"));
  Add(Model("other", 400));
  const auto join = [&] {
    for (const char* host : {"h", "k"})
      for (const WantedInstance& one : controller_->Wanted(host)) {
        controller_->Joined(one.instance, now_);
        controller_->Idle(one.instance, now_);
      }
    Say("h", controller_->fleet().hosts.at("h").programs);
    Say("k", controller_->fleet().hosts.at("k").programs);
  };
  join();
  if (HostOf("other") == "h") {
    ASSERT_TRUE(controller_->MoveModel("other", "k/g0", now_));
  }
  join();
  join();
  ASSERT_EQ(controller_->GpusOn(), 2u);
  const auto settle = [&] {
    for (int i = 0; i < 5; ++i) {
      Pass(2 * options_.settle);
      join();
    }
  };
  settle();
  EXPECT_EQ(HostOf("cats"), "h");
  EXPECT_EQ(HostOf("other"), "h") << "the other way it is freed";
  EXPECT_EQ(controller_->GpusOn(), 1u);
}

TEST_F(HostPrograms, FindRoomWhereTheyAreListedByAnothersMove) {
  options_.moves_per_hour = 10;
  Make(controller_->fleet());
  const auto join = [&] {
    for (const char* host : {"h", "k"})
      for (const WantedInstance& one : controller_->Wanted(host)) {
        controller_->Joined(one.instance, now_);
        controller_->Idle(one.instance, now_);
      }
    Say("h", {"resnet"});
    Say("k", {});
  };
  Add(Model("other", 400));
  join();
  if (HostOf("other") == "k") {
    ASSERT_TRUE(controller_->MoveModel("other", "h/g0", now_));
  }
  join();
  join();
  ASSERT_EQ(HostOf("other"), "h");
  Add(Program("cats", "resnet", 700));
  for (int i = 0; i < 10; ++i) {
    Pass(2 * options_.settle);
    join();
  }
  EXPECT_EQ(HostOf("other"), "k");
  EXPECT_EQ(HostOf("cats"), "h");
}

TEST_F(HostPrograms, OfManySetsHideNoGpu) {
  for (int i = 0; i < 40; ++i) {
    const std::string own = fmt::format("p{}", i);
    Add(Program("m" + own, own, 100));
    controller_->HostSays("x" + own, gpus_, {}, controller_->fleet().revision, now_, {own});
  }
  ServedModel wide = Model("wide", 800);
  wide.replicas = 42;
  Add(wide);
  std::set<std::string> hosts;
  for (const auto& [id, one] : controller_->fleet().instances)
    if (one.model.name == "wide") hosts.insert(one.place.host);
  EXPECT_EQ(hosts.size(), 42u);
}

TEST_F(HostPrograms, CountTheirMemoryOfAQuotaThoughNoHostListsThem) {
  options_.gpu_quotas = {{"red", 0.5}};
  Make(controller_->fleet());
  ServedModel large = Program("cats", "bert", 100);
  large.memory_mib = 40960;
  const auto added = controller_->AddModel(large, now_);
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().message, HasSubstr("has a quota of 0.5 GPUs, and this makes 1"));
}

TEST_F(HostPrograms, WhoseEndTheGatewaySawFirstSayWhyAllTheSame) {
  Add(Program("cats", "resnet"));
  const uint64_t id = controller_->Wanted("h").at(0).instance;
  controller_->Joined(id, now_);
  controller_->Left(id, now_);
  EXPECT_EQ(TroubleOf("cats"), "its executor left");
  controller_->HostSays("h", gpus_, {{id, true, false, "its program resnet exited: signal 9"}},
                        controller_->fleet().revision, now_, {"resnet"});
  EXPECT_EQ(TroubleOf("cats"), "its program resnet exited: signal 9");
}

TEST_F(HostPrograms, AnotherProgramUnderTheSameNumberEndsFirst) {
  WantedInstance wanted{7, Program("cats", "resnet"), {"h", "g0", 400}};
  const HostInstance runs{{7, Program("cats", "bert"), {"h", "g0", 400}}, HostPhase::kRunning};
  const auto steps = Steps({wanted}, {runs});
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].kind, Step::Kind::kEnd);
}

TEST_F(HostPrograms, OfAnotherNameIsAnotherModel) {
  Add(Program("cats", "resnet"));
  const auto added = controller_->AddModel(Program("cats", "bert"), now_);
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().message, HasSubstr("exists already with other settings (program)"));
}

}  // namespace
}  // namespace spillway::scheduler
