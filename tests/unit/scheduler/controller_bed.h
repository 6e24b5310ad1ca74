// SPDX-License-Identifier: Apache-2.0
// A controller with one host, whose clock goes as the test says.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "scheduler/controller/controller.h"

namespace spillway::scheduler {

inline ServedModel Model(const std::string& name, int milli, const std::string& tenant = "red") {
  ServedModel model;
  model.name = name;
  model.tenant = tenant;
  model.milli = milli;
  return model;
}

class ControllerTest : public testing::Test {
 protected:
  ControllerTest() {
    options_.rules.isolation = Isolation::kNone;
    options_.settle = 100;
    options_.start_limit = 1000;
    options_.drain_limit = 1000;
    Make();
  }
  void Make(Fleet fleet = {}) { controller_.emplace(options_, std::move(fleet)); }

  // One host of GPUs g0, g1, ...
  void Host(int gpus, int memory_mib = 0) {
    gpus_.clear();
    for (int g = 0; g < gpus; ++g) gpus_.push_back({fmt::format("g{}", g), "A100-40", memory_mib, true});
    Say({});
  }
  void Say(const std::vector<Held>& held) {
    controller_->HostSays("h", gpus_, held, controller_->fleet().revision, now_);
  }
  // Hosts and executors do what is wanted, and nothing goes wrong.
  void Obey() {
    for (int round = 0; round < 4; ++round) {
      std::vector<Held> held;
      for (const WantedInstance& one : controller_->Wanted("h")) {
        controller_->Joined(one.instance, now_);
        controller_->Idle(one.instance, now_);
      }
      for (const WantedInstance& one : controller_->Wanted("h")) held.push_back({one.instance});
      Say(held);
    }
  }
  void Pass(Millis time) { controller_->Tick(now_ += time); }
  void Add(const ServedModel& model) { ASSERT_TRUE(controller_->AddModel(model, now_)); }

  // Two models that would fit on one GPU are on two, at an operator's word.
  void Spread() {
    for (const char* name : {"a", "b"}) {
      Add(Model(name, 400));
      Obey();
    }
    ASSERT_TRUE(controller_->MoveModel("b", "h/g1", now_));
    Obey();
    ASSERT_EQ(controller_->GpusOn(), 2u);
  }

  const Instance* Of(const std::string& model, Phase phase) const {
    for (const auto& [id, one] : controller_->fleet().instances)
      if (one.model.name == model && one.phase == phase) return &one;
    return nullptr;
  }
  size_t instances() const { return controller_->fleet().instances.size(); }

  ControllerOptions options_;
  std::vector<Gpu> gpus_;
  std::optional<Controller> controller_;
  Millis now_ = 0;
};

}  // namespace spillway::scheduler
