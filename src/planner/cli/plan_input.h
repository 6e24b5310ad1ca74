// SPDX-License-Identifier: Apache-2.0
// What the verbs that take a workload have in common: its options, its file, and the mix they speak of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "planner/search.h"

namespace CLI {
class App;
}

namespace spillway::command {

struct PlanOptions {
  std::string file, folder, model, objective = "cost";
  std::vector<std::string> catalogues;
  std::optional<double> slowdown, cost_usd, power_w;
  double phi = 0;  // 0: the mix that a search finds
  bool no_sensitivity = false;
  uint64_t requests = 0;
  unsigned threads = 0;

  planner::Objective Objective() const {
    return objective == "energy" ? planner::Objective::kEnergy : planner::Objective::kCost;
  }
};

// The workload file, its catalogues and its model.
void AddWorkloadOptions(CLI::App& verb, PlanOptions& options);
// The limits, and what to minimise.
void AddLimitOptions(CLI::App& verb, PlanOptions& options);
// --phi, or what a search finds.
void AddMixOptions(CLI::App& verb, PlanOptions& options);

// Errors: kBadInput.
[[nodiscard]] Result<planner::PlanInput> ReadPlanInput(const PlanOptions& options);

// Whether the workload's compare node can be judged at all.
[[nodiscard]] Result<void> CheckComparable(const planner::PlanInput& input, const PlanOptions& o);

// The mix of --phi, else the best of a search. Errors: kConflict if none meets the limits.
[[nodiscard]] Result<planner::Mix> ChooseMix(const planner::ClusterModel& model, const PlanOptions& options);

}  // namespace spillway::command
