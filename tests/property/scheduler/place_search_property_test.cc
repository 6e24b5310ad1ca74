// SPDX-License-Identifier: Apache-2.0
// Many replicas at once go where they would go one by one, each decided on a view of the fleet that is made
// for it alone; in however many turns.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "scheduler/controller/controller.h"
#include "scheduler/placer.h"

namespace spillway::scheduler {
namespace {

class ManyReplicas : public testing::TestWithParam<Isolation> {
 protected:
  int Below(int bound) { return static_cast<int>(random_.Below(static_cast<uint64_t>(bound))); }

  ServedModel AnyModel(const std::string& name) {
    ServedModel model;
    model.name = name;
    model.tenant = Below(2) == 0 ? "red" : "blue";
    model.milli = Below(6) == 0 ? kWholeGpu : 50 + 50 * Below(10);
    if (Below(3) == 0) model.memory_mib = 1000 * (1 + Below(30));
    if (Below(5) == 0) model.host_program = "p";
    return model;
  }

  static ServedModel Many(ServedModel model) {
    model.replicas = 400;
    model.milli = 50;
    model.memory_mib = 0;
    model.host_program.clear();
    return model;
  }

  // Hosts, some models with instances in any phase, some of them in trouble.
  Controller AnyController() {
    options_ = {};
    options_.rules.isolation = GetParam();
    options_.is_moving = false;
    options_.policy = Below(3) == 0   ? Policy::kBestFit
                      : Below(2) == 0 ? Policy::kFirstFit
                                      : Policy::kSpillway;
    Controller before(options_);
    const bool is_large = Below(6) == 0;
    for (int h = 0, hosts = 2 + Below(5); h < hosts; ++h) {
      std::vector<Gpu> gpus;
      for (int g = 0, most = is_large ? 40 : 1 + Below(12); g < most; ++g) {
        const bool is_small = Below(2) == 0;
        gpus.push_back({fmt::format("g{}", g), is_small ? "A100-40" : "H100-80",
                        Below(4) == 0 ? 0
                        : is_small    ? 40'960
                                      : 81'920,
                        Below(4) != 0});
      }
      std::set<std::string> programs;
      if (Below(2) == 0) programs.insert("p");
      before.HostSays(fmt::format("h{}", h), gpus, {}, 0, ++now_, programs);
    }
    for (int m = 0; m < 4; ++m) {
      ServedModel model = AnyModel(fmt::format("old{}", m));
      model.replicas = Below(5);
      EXPECT_TRUE(before.AddModel(model, ++now_));
    }
    Fleet fleet = before.fleet();
    for (auto& [id, one] : fleet.instances) {
      const Phase phases[] = {Phase::kStarting, Phase::kReady, Phase::kReady, Phase::kStopping};
      one.phase = phases[Below(4)];
    }
    for (int m = 0; m < 4; ++m)
      if (Below(2) == 0)
        fleet.model_troubles[fmt::format("new{}", m)] = {1, 0, "it failed", fmt::format("h{}/g0", Below(3))};
    for (int g = 0; g < 3; ++g)
      if (Below(2) == 0) fleet.gpu_troubles[fmt::format("h1/g{}", g)] = {1, now_ + 1'000'000, "no slice"};
    for (int m = 0; m < 4; ++m) {
      ServedModel model = AnyModel(fmt::format("new{}", m));
      model.replicas = 1 + Below(20);
      if (is_large && m == 1) model = Many(model);
      fleet.models[model.name] = model;
    }
    return Controller(options_, fleet);
  }

  // Where the next replica goes; false: nowhere.
  bool PlaceOne(Fleet& fleet, const ServedModel& model) const {
    std::vector<std::string> avoids;
    if (const auto at = fleet.model_troubles.find(model.name);
        at != fleet.model_troubles.end() && !at->second.where.empty())
      avoids.push_back(at->second.where);
    avoids.emplace_back();
    for (const std::string& avoid : avoids) {
      FleetView view(fleet, options_.rules, avoid);
      std::vector<Job> jobs;
      for (const auto& [name, one] : fleet.models) jobs.insert(jobs.end(), one.replicas, view.JobOf(one));
      const JobMix mix(jobs, static_cast<int>(view.cluster().models().size()));
      Placer placer(view.cluster(), mix, {options_.policy, Objective::kFewestGpus});
      std::optional<std::pair<Job, Spot>> found;
      for (const Job& job : view.JobsOf(model)) {
        const auto there = placer.Decide(job);
        if (!there) continue;
        const bool is_on = !view.cluster().JobsOn(there->node).empty();
        if (!found || is_on) found = {job, *there};
        if (is_on) break;
      }
      if (!found) continue;
      Instance one;
      one.id = ++fleet.last_id;
      one.model = model;
      one.place = view.PlaceOf(found->first, found->second);
      one.since = fleet.now;
      fleet.instances[one.id] = one;
      return true;
    }
    return false;
  }

  void PlaceAll(Fleet& fleet) const {
    std::map<std::string, int> there;
    for (const auto& [id, one] : fleet.instances) there[one.model.name] += one.phase != Phase::kStopping;
    for (const auto& [name, model] : fleet.models)
      while (there[name] < model.replicas && PlaceOne(fleet, model)) ++there[name];
  }

  base::SplitMix64 random_{7};
  ControllerOptions options_;
  Millis now_ = 0;
  int in_turns_ = 0;
};

TEST_P(ManyReplicas, GoWhereTheyWouldGoOneByOne) {
  size_t placed = 0;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    Controller controller = AnyController();
    Fleet expected = controller.fleet();
    PlaceAll(expected);
    controller.Tick(now_);
    for (in_turns_ += controller.HasMore(); controller.HasMore();) controller.Tick(now_);
    ASSERT_EQ(controller.fleet().instances.size(), expected.instances.size());
    for (const auto& [id, one] : expected.instances)
      ASSERT_TRUE(controller.fleet().instances.at(id) == one) << id << " of " << one.model.name;
    placed += expected.instances.size();
  }
  EXPECT_GT(placed, 500u);
  EXPECT_GT(in_turns_, 0);
}

INSTANTIATE_TEST_SUITE_P(All, ManyReplicas,
                         testing::Values(Isolation::kNone, Isolation::kFraction, Isolation::kGpu),
                         [](const auto& level) { return std::string(ToString(level.param)); });

}  // namespace
}  // namespace spillway::scheduler
