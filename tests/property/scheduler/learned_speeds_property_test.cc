// SPDX-License-Identifier: Apache-2.0
// Whatever was learnt of speeds, true or not: what is placed without it is placed with it, on as many GPUs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/random.h"
#include "scheduler/controller/controller.h"

namespace spillway::scheduler {
namespace {

class SpeedsWorld {
 public:
  SpeedsWorld(uint64_t seed, Isolation isolation) : random_(seed) {
    options_.rules.isolation = isolation;
    options_.is_moving = false;
    controller_.emplace(options_);
    const char* const models[] = {"T4", "A100-40", "H100-80", "unknown"};
    for (int h = 0; h < 2; ++h) {
      std::vector<Gpu> gpus;
      for (int g = 0; g < 5; ++g) {
        const char* const model = models[Below(4)];
        gpus.push_back({fmt::format("g{}", g), model, 0, std::string(model) != "T4" && Below(3) != 0});
      }
      hosts_[fmt::format("h{}", h)] = gpus;
    }
    Obey(*controller_);
  }
  int Below(int bound) { return static_cast<int>(random_.Below(static_cast<uint64_t>(bound))); }

  void Obey(Controller& controller) {
    for (const auto& [name, gpus] : hosts_) {
      std::vector<Held> held;
      for (const WantedInstance& one : controller.Wanted(name)) {
        controller.Joined(one.instance, now_);
        held.push_back({one.instance});
      }
      controller.HostSays(name, gpus, held, controller.fleet().revision, now_);
    }
  }

  // Some true, some not even numbers.
  void Learn(Controller& controller) {
    std::vector<Controller::Took> took;
    for (const auto& [id, one] : controller.fleet().instances) {
      double ms = 1 + Below(50);
      if (Below(10) == 0) ms = std::numeric_limits<double>::quiet_NaN();
      if (Below(10) == 0) ms = 1e300;
      took.push_back({id, one.model.name, ms, static_cast<uint64_t>(Below(400))});
    }
    controller.Learn(took, now_);
  }

  void Step() {
    now_ += Below(100'000);
    for (int i = 0; i < 3; ++i) Learn(*controller_);
    ServedModel model;
    model.name = fmt::format("m{}", Below(4));
    model.tenant = Below(2) == 0 ? "red" : "blue";
    model.milli = 100 * (1 + Below(10));
    if (const auto there = controller_->fleet().models.find(model.name);
        there != controller_->fleet().models.end()) {
      model = there->second;
      if (Below(6) == 0) {
        ASSERT_TRUE(controller_->RemoveModel(model.name, now_));
        for (const auto& [id, one] : std::map(controller_->fleet().instances)) controller_->Idle(id, now_);
        Obey(*controller_);
        return;
      }
      ++model.replicas;
    }
    // One decision, with what was learnt and without: a fleet that was saved has no speeds.
    Controller without(options_, controller_->fleet());
    const size_t before = controller_->fleet().instances.size();
    ASSERT_TRUE(without.AddModel(model, now_));
    ASSERT_TRUE(controller_->AddModel(model, now_));
    EXPECT_EQ(controller_->fleet().instances.size(), without.fleet().instances.size());
    EXPECT_EQ(controller_->GpusOn(), without.GpusOn()) << "a GPU was switched on for speed's sake";
    if (controller_->fleet().instances.size() > before) CheckChoice(without);
    Obey(*controller_);
  }

  // Not clearly slower than where it would have gone.
  void CheckChoice(const Controller& without) {
    const auto slowness = [&](const Controller& of) {
      const Instance& last = of.fleet().instances.rbegin()->second;
      const std::string gpu = GpuModelAt(of.fleet(), last.place);
      return controller_->speeds().Slowness(last.model.name, gpu, of.fleet().now);
    };
    EXPECT_LE(slowness(*controller_), slowness(without));
    differ_ += slowness(*controller_) < slowness(without);
  }
  [[nodiscard]] int differ() const { return differ_; }

  void CheckSpeeds() {
    for (const auto& [name, model] : controller_->fleet().models) {
      const auto all = controller_->speeds().Of(name, now_);
      if (all.empty()) continue;
      double least = LearnedSpeeds::kMost;
      for (const auto& [gpu, slowness] : all) {
        EXPECT_NE(gpu, "unknown");
        EXPECT_GE(slowness, 1);
        EXPECT_LE(slowness, LearnedSpeeds::kMost);
        least = std::min(least, slowness);
      }
      EXPECT_EQ(least, 1);
    }
  }

 private:
  base::SplitMix64 random_;
  ControllerOptions options_;
  std::map<std::string, std::vector<Gpu>> hosts_;
  std::optional<Controller> controller_;
  Millis now_ = 1000;
  int differ_ = 0;
};

TEST(SpeedsProperty, DecideAmongPlacesThatAreOtherwiseAsGood) {
  int differ = 0;
  for (const Isolation isolation : {Isolation::kNone, Isolation::kFraction, Isolation::kGpu})
    for (uint64_t seed = 1; seed <= 20 && !testing::Test::HasFailure(); ++seed) {
      SCOPED_TRACE(fmt::format("isolation {}, seed {}", static_cast<int>(isolation), seed));
      SpeedsWorld world(seed, isolation);
      for (int step = 0; step < 30; ++step) {
        world.Step();
        world.CheckSpeeds();
      }
      differ += world.differ();
    }
  EXPECT_GT(differ, 10) << "nothing was decided by speeds";
}

}  // namespace
}  // namespace spillway::scheduler
