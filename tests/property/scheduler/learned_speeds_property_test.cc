// SPDX-License-Identifier: Apache-2.0
// Whatever was learnt of speeds, true or not: what is placed without it is placed with it, on as many GPUs;
// and no move that nobody asked for costs an SLO, or more than the GPUs that are free thereafter.
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
  // `is_moving`: once it is quiet, on GPUs of two models.
  SpeedsWorld(uint64_t seed, Isolation isolation, bool is_moving = false) : random_(seed) {
    options_.rules.isolation = isolation;
    options_.is_moving = is_moving;
    controller_.emplace(options_);
    const char* const models[] = {"T4", "A100-40", "H100-80", "unknown"};
    for (int h = 0; h < 2; ++h) {
      std::vector<Gpu> gpus;
      for (int g = 0; g < 5; ++g) {
        const char* const model = models[Below(is_moving ? 2 : 4)];
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

  // What moves comes to its end.
  void Settle() {
    for (int i = 0; i < 3; ++i) {
      Obey(*controller_);
      for (const auto& [id, one] : std::map(controller_->fleet().instances)) controller_->Idle(id, now_);
    }
    Obey(*controller_);
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
    controller_->Tick(now_);
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
    // One decision, with what was learnt and without.
    Fleet ignorant = controller_->fleet();
    ignorant.service_times.clear();
    Controller without(options_, ignorant);
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
      return LearnedSpeeds::Slowness(controller_->fleet().service_times, last.model.name, gpu,
                                     of.fleet().now);
    };
    EXPECT_LE(slowness(*controller_), slowness(without));
    differ_ += slowness(*controller_) < slowness(without);
  }
  [[nodiscard]] int differ() const { return differ_; }

  // Models here and there, tried on both kinds of GPU; then fewer replicas, and time to free GPUs.
  void FreeGpus() {
    for (int m = 0; m < 5; ++m) {
      ServedModel model;
      model.name = fmt::format("m{}", m);
      model.milli = 50 * (1 + Below(8));
      model.slo_ms = 50 * Below(2);
      model.replicas = 2 + Below(3);
      ASSERT_TRUE(controller_->AddModel(model, now_));
      Settle();
    }
    for (int i = 0; i < 20; ++i) {
      const std::string gpu = fmt::format("h{}/g{}", Below(2), Below(5));
      if (controller_->MoveModel(fmt::format("m{}", Below(5)), gpu, now_)) Settle();
    }
    std::vector<Controller::Took> took;
    for (const auto& [id, one] : controller_->fleet().instances) {
      const bool is_quick = (GpuModelOf(one.place) == "T4") == (one.model.name.back() % 2 == 0);
      took.push_back({id, one.model.name, is_quick ? 40 : 58.0, LearnedSpeeds::kLeastRequests});
    }
    controller_->Learn(took, now_);
    for (const auto& [name, model] : std::map(controller_->fleet().models)) {
      ServedModel fewer = model;
      fewer.replicas = 1 + Below(2);
      ASSERT_TRUE(controller_->AddModel(fewer, now_));
    }
    Settle();
    const std::map<uint64_t, Instance> before = controller_->fleet().instances;
    controller_->Tick(now_ += options_.settle);
    std::map<uint64_t, SlicePlace> moves;
    for (const PlannedMove& move : controller_->fleet().planned) moves[move.instance] = move.to;
    for (const auto& [id, one] : controller_->fleet().instances)
      if (one.replaces != 0) moves[one.replaces] = one.place;
    std::set<std::string> on, on_after;
    double cost = 0;
    for (const auto& [id, one] : before) {
      const auto move = moves.find(id);
      const SlicePlace& to = move == moves.end() ? one.place : move->second;
      on.insert(GpuKey(one.place.host, one.place.gpu));
      on_after.insert(GpuKey(to.host, to.gpu));
      if (move != moves.end()) cost += options_.move_price + LossBy(one, to);
    }
    moves_ += moves.size();
    if (moves.empty()) return;
    EXPECT_LT(cost, static_cast<double>(on.size()) - static_cast<double>(on_after.size()));
  }
  [[nodiscard]] size_t moves() const { return moves_; }
  [[nodiscard]] size_t slower() const { return slower_; }

  void CheckSpeeds() {
    for (const auto& [name, model] : controller_->fleet().models) {
      const auto all = LearnedSpeeds::Of(controller_->fleet().service_times, name, now_);
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
  std::string GpuModelOf(const SlicePlace& place) const { return GpuModelAt(controller_->fleet(), place); }

  // In GPUs: what more it needs for as many requests.
  double LossBy(const Instance& one, const SlicePlace& to) {
    const auto ms = [&](const SlicePlace& place) {
      return LearnedSpeeds::ExpectedMs(controller_->fleet().service_times, one.model.name, GpuModelOf(place),
                                       now_);
    };
    const auto here = ms(one.place), there = ms(to);
    if (!here || !there || *there <= *here) return 0;
    ++slower_;
    EXPECT_FALSE(one.model.slo_ms > 0 && *here <= one.model.slo_ms && *there > one.model.slo_ms)
        << one.model.name << " is no longer answered in time";
    return (*there / *here - 1) * one.place.milli / kWholeGpu;
  }

  base::SplitMix64 random_;
  ControllerOptions options_;
  std::map<std::string, std::vector<Gpu>> hosts_;
  std::optional<Controller> controller_;
  Millis now_ = 1000;
  int differ_ = 0;
  size_t moves_ = 0, slower_ = 0;
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

TEST(SpeedsProperty, NoMoveCostsAnSloOrMoreThanItFrees) {
  size_t moves = 0, slower = 0;
  for (const Isolation isolation : {Isolation::kNone, Isolation::kFraction, Isolation::kGpu})
    for (uint64_t seed = 1; seed <= 20 && !testing::Test::HasFailure(); ++seed) {
      SCOPED_TRACE(fmt::format("isolation {}, seed {}", static_cast<int>(isolation), seed));
      SpeedsWorld world(seed, isolation, true);
      world.FreeGpus();
      moves += world.moves();
      slower += world.slower();
    }
  EXPECT_GT(moves, 50u);
  EXPECT_GT(slower, 0u) << "nothing was moved to where its requests take longer";
}

}  // namespace
}  // namespace spillway::scheduler
