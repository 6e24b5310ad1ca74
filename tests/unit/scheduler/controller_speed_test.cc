// SPDX-License-Identifier: Apache-2.0
// What the controller makes of how long requests take on which kind of GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>
#include <string>

#include "controller_bed.h"

namespace spillway::scheduler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// g0 is of another kind than g1 and, where there are three, g2.
class UnlikeGpusTest : public ControllerTest {
 protected:
  void HostUnlike(int fast) {
    gpus_ = {{"g0", "T4", 0, true}};
    for (int g = 1; g <= fast; ++g) gpus_.push_back({fmt::format("g{}", g), "A100-40", 0, true});
    Say({});
  }
  static ServedModel WithSlo(const std::string& name, int milli, Millis slo) {
    ServedModel model = Model(name, milli);
    model.slo_ms = slo;
    return model;
  }
  // Of a model that has one instance, ready.
  void Took(const std::string& model, double ms) {
    controller_->Took(Of(model, Phase::kReady)->id, ms, now_);
  }
  void Move(const std::string& model, const std::string& gpu) {
    if ("h/" + Of(model, Phase::kReady)->place.gpu != gpu) {
      ASSERT_TRUE(controller_->MoveModel(model, gpu, now_));
      Obey();
    }
    ASSERT_EQ("h/" + Of(model, Phase::kReady)->place.gpu, gpu);
  }
};

TEST_F(UnlikeGpusTest, AModelLeavesAGpuOnWhichItsRequestsTakeLongerThanItsSlo) {
  HostUnlike(1);
  Add(WithSlo("a", 500, 20));
  Obey();
  Move("a", "h/g0");
  Took("a", 19);
  Pass(options_.settle);
  EXPECT_EQ(instances(), 1u) << "fast enough";
  for (int i = 0; i < 8; i++) Took("a", 25);
  Pass(options_.settle);
  ASSERT_NE(Of("a", Phase::kStarting), nullptr);
  EXPECT_EQ(Of("a", Phase::kStarting)->place.gpu, "g1");
  Obey();
  EXPECT_EQ(Of("a", Phase::kReady)->place.gpu, "g1");
  EXPECT_EQ(controller_->fleet().moves_done, 1u);
}

TEST_F(UnlikeGpusTest, ItStaysWhereAllAreTooSlowAndWithoutAnSlo) {
  HostUnlike(1);
  Add(WithSlo("a", 500, 20));
  Add(Model("b", 300));
  Obey();
  for (const char* gpu : {"h/g0", "h/g1"}) {
    Move("a", gpu);
    Took("a", 50);
    Move("b", gpu);
    Took("b", 5000);
  }
  Pass(options_.settle);
  EXPECT_EQ(instances(), 2u);
}

TEST_F(UnlikeGpusTest, ReplicasAvoidWhatIsTooSlowUntilNothingElseHasRoom) {
  HostUnlike(2);
  ServedModel model = WithSlo("a", 1000, 20);
  Add(model);
  Obey();
  Move("a", "h/g0");
  Took("a", 50);
  Pass(options_.settle);
  Obey();
  ASSERT_NE(Of("a", Phase::kReady)->place.gpu, "g0");
  model.replicas = 3;
  Add(model);
  std::set<std::string> gpus;
  for (const WantedInstance& one : controller_->Wanted("h")) gpus.insert(one.place.gpu);
  EXPECT_THAT(gpus, ElementsAre("g0", "g1", "g2"));
}

TEST_F(UnlikeGpusTest, WhatRequestsTakeOutlivesTheControllerAndNotTheModel) {
  HostUnlike(1);
  Add(WithSlo("a", 500, 20));
  Obey();
  Took("a", 50);
  const auto kept = ParseFleet(ToText(controller_->fleet()));
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->service_ms, controller_->fleet().service_ms);
  EXPECT_EQ(kept->service_ms.at("a").size(), 1u);
  ASSERT_TRUE(controller_->RemoveModel("a", now_));
  EXPECT_THAT(controller_->fleet().service_ms, IsEmpty());
}

}  // namespace
}  // namespace spillway::scheduler
