// SPDX-License-Identifier: Apache-2.0
#include "planner/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

namespace spillway::planner {
namespace {

constexpr double kTenth = 0.1;

// An input and how to change it.
struct Lever {
  std::string name;
  std::function<void(PlanInput&, double factor)> change;
};

void AddShare(std::vector<Lever>& levers, const char* name, const TimeShares& time,
              double TimeShares::*share) {
  if (time.*share == 0 || time.*share == 1) return;
  levers.push_back({std::string("share of ") + name, [share](PlanInput& input, double factor) {
                      TimeShares& t = input.workload.time;
                      const double before = t.*share, after = std::min(1.0, before * factor);
                      const double rest = (1 - after) / (1 - before);
                      for (double TimeShares::*other :
                           {&TimeShares::cpu, &TimeShares::shuffle, &TimeShares::storage,
                            &TimeShares::accelerator, &TimeShares::stall})
                        t.*other = other == share ? after : t.*other * rest;
                    }});
}

void AddNode(std::vector<Lever>& levers, const Catalogue& catalogue, size_t n) {
  const std::string& name = catalogue.nodes[n].name;
  const auto add = [&](const char* figure, double Node::*member) {
    levers.push_back({figure + (" of " + name), [n, member](PlanInput& input, double factor) {
                        input.catalogue.nodes[n].*member *= factor;
                      }});
  };
  add("price", &Node::price_usd);
  add("power", &Node::power_w);
  add("network", &Node::network_gbps);
  add("memory", &Node::memory_gb);
  levers.push_back({"throughput of " + name, [n](PlanInput& input, double factor) {
                      for (auto& [yardstick, rate] : input.catalogue.nodes[n].throughput) rate *= factor;
                    }});
  levers.push_back({"DRAM bandwidth of " + name, [n](PlanInput& input, double factor) {
                      input.catalogue.nodes[n].dram.mega_transfers_per_s *= factor;
                    }});
}

void AddDevice(std::vector<Lever>& levers, const Catalogue& catalogue, size_t d) {
  const auto add = [&](const char* figure, double Device::*member) {
    levers.push_back(
        {figure + (" of " + catalogue.devices[d].name),
         [d, member](PlanInput& input, double factor) { input.catalogue.devices[d].*member *= factor; }});
  };
  add("price", &Device::price_usd);
  add("power", &Device::power_w);
  if (catalogue.devices[d].device_class != DeviceClass::kDrive) return;
  add("rate", &Device::gb_per_s);
  add("capacity", &Device::capacity_tb);
}

std::vector<Lever> LeversOf(const PlanInput& input, const Mix& best) {
  const Workload& w = input.workload;
  std::vector<Lever> levers;
  std::set<size_t> nodes, devices;
  for (const Mix* mix : {&w.baseline, &best}) {
    for (const Group& group : mix->groups) {
      nodes.insert(group.node);
      if (group.devices > 0) devices.insert(group.device);
    }
  }
  for (size_t n : nodes) AddNode(levers, input.catalogue, n);
  for (size_t d : devices) AddDevice(levers, input.catalogue, d);
  levers.push_back({"price of fabric", [](PlanInput& in, double factor) {
                      in.catalogue.fabric.edge_usd_per_gbps *= factor;
                      in.catalogue.fabric.spine_usd_per_gbps *= factor;
                    }});
  levers.push_back({"power of fabric", [](PlanInput& in, double factor) {
                      in.catalogue.fabric.edge_w_per_gbps *= factor;
                      in.catalogue.fabric.spine_w_per_gbps *= factor;
                    }});
  AddShare(levers, "cpu", w.time, &TimeShares::cpu);
  AddShare(levers, "shuffle", w.time, &TimeShares::shuffle);
  AddShare(levers, "storage", w.time, &TimeShares::storage);
  AddShare(levers, "accelerator", w.time, &TimeShares::accelerator);
  AddShare(levers, "stall", w.time, &TimeShares::stall);
  levers.push_back(
      {"limit of slowdown", [](PlanInput& in, double factor) { in.workload.limits.slowdown *= factor; }});
  if (w.checkpoint.model_gb_per_accelerator > 0)
    levers.push_back({"model size", [](PlanInput& in, double factor) {
                        in.workload.checkpoint.model_gb_per_accelerator *= factor;
                      }});
  if (w.memory.data_gb > 0)
    levers.push_back(
        {"data in memory", [](PlanInput& in, double factor) { in.workload.memory.data_gb *= factor; }});
  return levers;
}

double ObjectiveOf(const Evaluation& evaluation, Objective objective) {
  return objective == Objective::kCost ? evaluation.CostUsd() : evaluation.Energy();
}

}  // namespace

double Influence::Greatest() const {
  if (!less || !more) return std::numeric_limits<double>::infinity();
  return std::max(std::abs(*less), std::abs(*more));
}

std::vector<Influence> FindInfluences(const PlanInput& input, Objective objective, const FrontPoint& best,
                                      const SearchHooks& hooks) {
  std::vector<Influence> influences;
  const std::vector<Lever> levers = LeversOf(input, best.mix);
  for (size_t i = 0; i < levers.size(); i++) {
    if (hooks.stop && hooks.stop()) break;
    Influence influence{levers[i].name, {}, {}, false};
    for (double factor : {1 - kTenth, 1 + kTenth}) {
      PlanInput changed = input;
      levers[i].change(changed, factor);
      const ClusterModel model(changed);
      Question question;
      question.objective = objective;
      // The unchanged answer, where it still meets the limits, bounds the changed one.
      const Evaluation kept = model.Evaluate(best.mix);
      if (kept.Feasible()) question.at_most = ObjectiveOf(kept, objective);
      const Answer answer = Search(model, question, {{}, hooks.stop});
      auto& shift = factor < 1 ? influence.less : influence.more;
      if (answer.best) shift = answer.best->objective / best.objective - 1;
      influence.other_mix = influence.other_mix || !answer.best || !(answer.best->mix == best.mix);
    }
    influences.push_back(std::move(influence));
    if (hooks.progress) hooks.progress(static_cast<double>(i + 1) / static_cast<double>(levers.size()));
  }
  std::stable_sort(influences.begin(), influences.end(),
                   [](const Influence& a, const Influence& b) { return a.Greatest() > b.Greatest(); });
  return influences;
}

}  // namespace spillway::planner
