// SPDX-License-Identifier: Apache-2.0
#include "planner/compare.h"

#include <cmath>

namespace spillway::planner {

Mix ReplaceServers(const Workload& workload, double phi) {
  Mix mix = workload.baseline;
  for (Group& group : mix.groups) {
    group.node = workload.compare_node;
    group.nodes = static_cast<int>(std::lround(group.nodes * phi));
  }
  return mix;
}

std::string MissingYardstick(const PlanInput& input) {
  const auto& known = input.catalogue.nodes[input.workload.compare_node].throughput;
  for (const auto& [yardstick, share] : input.workload.cpu)
    if (!known.contains(yardstick)) return yardstick;
  return "";
}

std::vector<Comparison> Compare(const ClusterModel& model, int most_phi) {
  const Workload& w = model.input().workload;
  const Evaluation before = model.Evaluate(w.baseline);
  const auto without_fabric = [](const Evaluation& e) { return e.nodes_usd + e.devices_usd; };
  const auto watts_without_fabric = [](const Evaluation& e) { return e.nodes_w + e.devices_w; };
  std::vector<Comparison> comparisons;
  for (int phi = 1; phi <= most_phi; phi++) {
    Comparison one;
    one.phi = phi;
    one.mix = ReplaceServers(w, phi);
    const Evaluation now = model.Evaluate(one.mix);
    one.slowdown = now.slowdown;
    one.time = now.time;
    one.cost = without_fabric(before) / without_fabric(now);
    one.cost_with_fabric = before.CostUsd() / now.CostUsd();
    // The baseline's fabric, as much faster or slower as the application is.
    one.cost_with_right_sized_fabric =
        before.CostUsd() / (without_fabric(now) + before.fabric_usd / now.slowdown);
    one.energy = watts_without_fabric(before) / (watts_without_fabric(now) * now.slowdown);
    one.energy_with_fabric = before.Energy() / now.Energy();
    for (const Check& check : now.checks)
      if ((check.limit >= Limit::kMemory || check.limit == Limit::kSlowdown) && check.Ratio() > 1)
        one.broken.push_back(check);
    comparisons.push_back(std::move(one));
  }
  return comparisons;
}

}  // namespace spillway::planner
