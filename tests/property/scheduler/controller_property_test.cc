// SPDX-License-Identifier: Apache-2.0
// The controller against hosts, executors and a network in which anything happens at any time: what it says
// is carried out late, what it hears is old, doubled or never comes, and it is itself replaced by what it
// saved. The hosts here are plain lists, and the rules are checked on them by adding up.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"
#include "scheduler/controller/controller.h"
#include "scheduler/controller/node_plan.h"

namespace spillway::scheduler {
namespace {

constexpr Millis kStartLimit = 3000;

struct FakeHost {
  std::vector<Gpu> gpus;
  std::set<std::string> off;                      // GPUs that fell off
  bool tells_off = false;                         // says so of each; else has them no longer
  std::set<std::string> programs, told_programs;  // that it has; that the controller knows of
  bool is_up = true;
  std::vector<HostInstance> has;
  std::map<uint64_t, std::pair<bool, std::string>> failed;  // slice refused, why
  std::vector<WantedInstance> wanted;
  uint64_t revision = 0;
};

struct OnGpu {
  ServedModel model;
  SlicePlace place;
};

// The rules, on whatever is on one GPU. `memory_mib` 0: not known.
std::string Broken(const std::vector<OnGpu>& there, const Gpu& gpu, Isolation isolation) {
  int milli = 0, memory = 0, mask = 0;
  std::set<std::string> tenants;
  for (const auto& [model, place] : there) {
    tenants.insert(model.tenant);
    if (isolation == Isolation::kFraction && there.size() > 1 && !place.profile)
      return "two on one that is whole";
    if (place.profile) {
      if (isolation != Isolation::kFraction || !gpu.can_divide) return "a slice where there are none";
      const int mine = MaskOf(*place.profile, place.start);
      if ((mask & mine) != 0) return "slices overlap";
      mask |= mine;
      if (gpu.memory_mib > 0 && model.memory_mib * kSlices > gpu.memory_mib * ShapeOf(*place.profile).memory)
        return "a slice has too little memory";
      if (ShapeOf(*place.profile).compute * kWholeGpu < 7 * std::min(place.milli, model.milli))
        return "a slice has too little compute";
      continue;
    }
    milli += place.milli;
    memory += model.memory_mib;
    if (place.milli < model.milli) return "less than it asks for";
  }
  if (milli > kWholeGpu) return fmt::format("{} milli are given", milli);
  if (gpu.memory_mib > 0 && memory > gpu.memory_mib) return "more memory than it has";
  if (isolation == Isolation::kGpu && tenants.size() > 1) return "two tenants";
  return "";
}

class World {
 public:
  World(uint64_t seed, Isolation isolation) : random_(seed), isolation_(isolation), is_calm_(seed % 2 == 0) {
    options_.rules.isolation = isolation;
    options_.start_limit = kStartLimit;
    options_.drain_limit = 5000;
    options_.settle = 200;
    options_.moves_per_hour = 3000;
    controller_.emplace(options_);
    const int hosts = 1 + Below(3);
    for (int h = 0; h < hosts; ++h) {
      FakeHost host;
      const int gpus = 1 + Below(3);
      for (int g = 0; g < gpus; ++g) {
        Gpu gpu{fmt::format("g{}", g), Below(2) == 0 ? "A100-40" : "H100-80", 0, Below(4) != 0};
        if (Below(3) != 0) gpu.memory_mib = gpu.model == "A100-40" ? 40'960 : 81'920;
        host.gpus.push_back(gpu);
      }
      if (Below(2) == 0) host.programs.insert("p0");
      hosts_[fmt::format("h{}", h)] = host;
    }
  }

  int Below(int bound) { return static_cast<int>(random_.Below(static_cast<uint64_t>(bound))); }
  template <class T>
  auto& Any(T& of) {
    return *std::next(of.begin(), Below(static_cast<int>(of.size())));
  }

  void Happen() {
    now_ += Below(4) == 0 ? Below(700) : Below(20);
    switch (Below(15)) {
      case 0:
        Add();
        break;
      case 1:
        if (Below(4) == 0) Remove();
        break;
      case 2:
        if (Below(is_calm_ ? 10 : 2) == 0) Crash();
        break;
      case 3:
        if (Below(is_calm_ ? 10 : 1) == 0) HostTrouble();
        break;
      case 4:
        Restart();
        break;
      case 5:
      case 13:
      case 14:
        if (!controller_->fleet().models.empty())
          Quietly([&, name = Any(controller_->fleet().models).first] {
            (void)controller_->MoveModel(name, Below(3) == 0 ? "h0/g0" : "", now_);
          });
        break;
      case 6:
        Quietly([&] { controller_->Tick(now_); });
        break;
      default:
        Proceed(Any(hosts_).first, true);
    }
    Check();
  }

  // From here on nothing goes wrong.
  void Settle() {
    for (auto& [name, host] : hosts_) host.is_up = true, host.off.clear();
    for (int round = 0; round < 120; ++round) {
      now_ += 1000;
      for (const auto& [name, host] : hosts_) Proceed(name, false);
      controller_->Tick(now_);
      CheckRules();
    }
    const Fleet& fleet = controller_->fleet();
    for (const auto& [id, one] : fleet.instances) EXPECT_EQ(one.phase, Phase::kReady) << ToText(fleet);
    EXPECT_TRUE(fleet.planned.empty());
    std::map<std::string, int> there;
    for (const auto& [id, one] : fleet.instances) ++there[one.model.name];
    for (const auto& [name, model] : fleet.models) {
      const auto trouble = fleet.model_troubles.find(name);
      if (there[name] == model.replicas) continue;
      ASSERT_NE(trouble, fleet.model_troubles.end()) << name;
      EXPECT_LT(there[name], model.replicas);
      FleetView view(fleet, options_.rules);
      for (const Job& job : view.JobsOf(model))
        for (int n = 0; n < static_cast<int>(view.cluster().nodes().size()); ++n)
          EXPECT_FALSE(view.cluster().FitsNode(job, n)) << name << " waits beside room";
    }
    for (const auto& [name, host] : hosts_) {
      EXPECT_TRUE(Steps(controller_->Wanted(name), host.has).empty());
      EXPECT_EQ(controller_->Wanted(name).size(), host.has.size());
    }
    moves_ += fleet.moves_done;
  }

  uint64_t moves_ = 0;

 private:
  void Add() {
    ServedModel model;
    model.name = fmt::format("m{}", Below(7));
    model.tenant = fmt::format("t{}", Below(2));
    model.replicas = Below(3);
    model.milli = Below(5) == 0 ? 1000 : 50 + 50 * Below(8);
    if (Below(2) == 0) model.memory_mib = 1000 * (1 + Below(30));
    model.slo_ms = Below(2) * 50;
    if (Below(4) == 0) model.host_program = "p0";
    // Nobody is harmed by it, but fewer replicas may be asked for.
    const auto there = controller_->fleet().models.find(model.name);
    if (there != controller_->fleet().models.end()) {
      if (Below(2) == 0) {
        const int replicas = model.replicas;
        model = there->second;
        model.replicas = replicas;
      }
    }
    const auto added = controller_->AddModel(model, now_);
    if (there != controller_->fleet().models.end() && !added) {
      EXPECT_EQ(added.error().code, ErrorCode::kConflict);
    }
  }

  void Remove() {
    if (controller_->fleet().models.empty()) return;
    ASSERT_TRUE(controller_->RemoveModel(std::string(Any(controller_->fleet().models).first), now_));
  }

  void Crash() {
    FakeHost& host = Any(hosts_).second;
    if (host.has.empty()) return;
    HostInstance& one = Any(host.has);
    if (one.phase == HostPhase::kRunning) End(host, one, "it crashed");
  }

  void End(FakeHost& host, HostInstance& one, const std::string& why) {
    one.phase = HostPhase::kFailed;
    host.failed[one.wanted.instance] = {false, why};
    if (joined_.erase(one.wanted.instance) != 0) controller_->Left(one.wanted.instance, now_);
  }

  void HostTrouble() {
    auto& [name, host] = Any(hosts_);
    const int what = Below(5);
    if (what == 0) {
      host.is_up = false;
      Quietly([&, lost = name] { controller_->HostLost(lost, now_); });
    } else if (what == 1) {
      host.is_up = true;  // what it has lives on
    } else if (what == 2) {
      host.off.insert(Any(host.gpus).id);
      host.tells_off = Below(2) != 0;
      for (HostInstance& one : host.has)
        if (host.off.count(one.wanted.place.gpu) != 0 && one.phase == HostPhase::kRunning)
          End(host, one, "gone");
    } else if (what == 3) {
      if (host.programs.erase("p0") == 0) host.programs.insert("p0");
    } else {
      host.off.clear();
    }
  }

  void Restart() {
    const auto saved = ParseFleet(ToText(controller_->fleet()));
    ASSERT_TRUE(saved) << saved.error().message;
    controller_.emplace(options_, *saved);
    if (Below(2) != 0) return;
    controller_->Restarted(now_);
    const std::set<uint64_t> joined = joined_;
    for (const uint64_t id : joined)
      if (Below(3) != 0)
        controller_->Joined(id, now_);
      else if (auto one = controller_->fleet().instances.find(id);
               one != controller_->fleet().instances.end() && one->second.phase != Phase::kStopping)
        late_.insert(id);
  }

  // One thing that a host, its executors or the way to it does.
  void Proceed(const std::string& name, bool may_fail) {
    FakeHost& host = hosts_[name];
    for (auto at = late_.begin(); at != late_.end(); at = late_.erase(at))
      if (joined_.count(*at) != 0) controller_->Joined(*at, now_);
    if (!host.is_up) return;
    if (!may_fail || Below(3) == 0) {
      host.wanted = controller_->Wanted(name);
      host.revision = controller_->fleet().revision;
    }
    const auto steps = Steps(host.wanted, host.has);
    for (const Step& step : steps) Take(host, step, may_fail);
    for (size_t i = 0; i < host.has.size(); ++i) {
      HostInstance& one = host.has[i];
      const uint64_t id = one.wanted.instance;
      if (one.phase == HostPhase::kEnding) {
        host.has.erase(host.has.begin() + static_cast<long>(i--));
        continue;
      }
      if (one.phase != HostPhase::kRunning) continue;
      if (joined_.count(id) == 0 && (!may_fail || Below(8) != 0)) {
        joined_.insert(id);
        Quietly([&] { controller_->Joined(id, now_); });
      }
      const auto known = controller_->fleet().instances.find(id);
      if (known != controller_->fleet().instances.end() && known->second.phase == Phase::kDraining &&
          (!may_fail || Below(2) == 0))
        Quietly([&] { controller_->Idle(id, now_); });
    }
    if (!may_fail || Below(2) == 0) Report(name, host);
  }

  void Take(FakeHost& host, const Step& step, bool may_fail) {
    const auto at = std::find_if(host.has.begin(), host.has.end(), [&](const HostInstance& one) {
      return one.wanted.instance == step.instance.instance;
    });
    if (step.kind == Step::Kind::kMakeSlice) {
      ASSERT_EQ(at, host.has.end()) << "one instance twice";
      const bool refused = (may_fail && Below(10) == 0) || host.off.count(step.instance.place.gpu) != 0;
      host.has.push_back({step.instance, refused ? HostPhase::kFailed : HostPhase::kSlice});
      if (refused) host.failed[step.instance.instance] = {true, "no slice"};
      return;
    }
    ASSERT_NE(at, host.has.end());
    if (step.kind == Step::Kind::kStart) {
      at->phase = HostPhase::kRunning;
      const std::string& program = step.instance.model.host_program;
      if (!program.empty() && host.programs.count(program) == 0) End(host, *at, "no such program");
    }
    if (step.kind == Step::Kind::kDropSlice) host.has.erase(at);
    if (step.kind == Step::Kind::kEnd) {
      at->phase = HostPhase::kEnding;
      if (joined_.erase(step.instance.instance) != 0) controller_->Left(step.instance.instance, now_);
    }
  }

  void Report(const std::string& name, FakeHost& host) {
    std::vector<Held> held;
    bool fails = false;
    for (const HostInstance& one : host.has) {
      Held entry;
      entry.instance = one.wanted.instance;
      if (one.phase == HostPhase::kFailed) {
        const auto& [refused, why] = host.failed[entry.instance];
        entry.has_failed = fails = true;
        entry.slice_refused = refused;
        entry.why = why;
      }
      held.push_back(entry);
    }
    std::vector<Gpu> gpus;
    for (const Gpu& gpu : host.gpus) {
      const bool is_off = host.off.count(gpu.id) != 0;
      if (!is_off || host.tells_off) gpus.push_back(gpu);
      if (is_off && host.tells_off) gpus.back().lost = "it fell off the bus";
    }
    const auto say = [&] { controller_->HostSays(name, gpus, held, host.revision, now_, host.programs); };
    host.told_programs = host.programs;
    if (fails || !host.off.empty())
      say();
    else
      Quietly(say);
    // Said twice it changes nothing more.
    const Fleet once = controller_->fleet();
    say();
    EXPECT_TRUE(once == controller_->fleet()) << ToText(once) << '\n' << ToText(controller_->fleet());
  }

  // What takes nothing away: no model's last ready instance goes by it.
  void Quietly(const std::function<void()>& event) {
    const std::set<std::string> before = ReadyModels();
    bool unseen = false;
    for (const auto& [id, one] : controller_->fleet().instances) unseen = unseen || one.is_unseen;
    event();
    if (unseen) return;  // one who never came back may be given up by any event
    const std::set<std::string> after = ReadyModels();
    for (const std::string& name : before)
      EXPECT_EQ(after.count(name), 1u) << name << " lost its last instance: " << ToText(controller_->fleet());
  }

  std::set<std::string> ReadyModels() const {
    std::set<std::string> ready;
    for (const auto& [id, one] : controller_->fleet().instances)
      if (one.phase == Phase::kReady && !one.is_unseen) ready.insert(one.model.name);
    return ready;
  }

  void Check() {
    const auto read = ParseFleet(ToText(controller_->fleet()));
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_TRUE(*read == controller_->fleet());
    CheckRules();
  }

  // A new one is where its host was known to have the program.
  void CheckPrograms() {
    for (const auto& [id, one] : controller_->fleet().instances) {
      if (id <= checked_) continue;
      checked_ = id;
      if (!one.model.host_program.empty()) {
        ASSERT_EQ(hosts_[one.place.host].told_programs.count(one.model.host_program), 1u)
            << ToText(controller_->fleet());
      }
    }
  }

  void CheckRules() {
    CheckPrograms();
    // Nobody is let go while too few serve.
    std::map<std::string, int> serving;
    std::set<uint64_t> replaced;
    for (const auto& [id, one] : controller_->fleet().instances) {
      replaced.insert(one.replaces);
      serving[one.model.name] +=
          one.phase == Phase::kReady || (one.phase == Phase::kStarting && one.replaces == 0);
    }
    for (const auto& [id, one] : controller_->fleet().instances) {
      const auto model = controller_->fleet().models.find(one.model.name);
      if (one.phase == Phase::kDraining && replaced.count(id) == 0 &&
          model != controller_->fleet().models.end() && IsSameService(one.model, model->second)) {
        ASSERT_GE(serving[one.model.name], model->second.replicas) << ToText(controller_->fleet());
      }
    }
    std::map<std::string, std::vector<OnGpu>> by_plan;
    for (const auto& [id, one] : controller_->fleet().instances)
      by_plan[GpuKey(one.place.host, one.place.gpu)].push_back({one.model, one.place});
    for (const auto& [name, host] : hosts_)
      for (const Gpu& gpu : host.gpus) {
        std::vector<OnGpu> there;
        for (const HostInstance& one : host.has)
          if (one.wanted.place.gpu == gpu.id &&
              !(one.phase == HostPhase::kFailed && host.failed.at(one.wanted.instance).first))
            there.push_back({one.wanted.model, one.wanted.place});
        ASSERT_EQ(Broken(there, gpu, isolation_), "") << "on the host";
        ASSERT_EQ(Broken(by_plan[GpuKey(name, gpu.id)], gpu, isolation_), "") << ToText(controller_->fleet());
      }
  }

  base::SplitMix64 random_;
  Isolation isolation_;
  bool is_calm_;  // little goes wrong, so that moves come to their end
  ControllerOptions options_;
  std::optional<Controller> controller_;
  std::map<std::string, FakeHost> hosts_;
  uint64_t checked_ = 0;  // the last instance of which it is known where it began
  std::set<uint64_t> joined_, late_;
  Millis now_ = 0;
};

class ControllerProperty : public testing::TestWithParam<Isolation> {};

TEST_P(ControllerProperty, WhateverHappensNoRuleBreaksAndAllIsServedOnceItIsQuiet) {
  uint64_t moves = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    World world(seed, GetParam());
    for (int event = 0; event < 250 && !testing::Test::HasFailure(); ++event) world.Happen();
    if (!testing::Test::HasFailure()) world.Settle();
    moves += world.moves_;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(moves, 10u);
}

INSTANTIATE_TEST_SUITE_P(All, ControllerProperty,
                         testing::Values(Isolation::kNone, Isolation::kFraction, Isolation::kGpu),
                         [](const auto& level) { return std::string(ToString(level.param)); });

}  // namespace
}  // namespace spillway::scheduler
