// SPDX-License-Identifier: Apache-2.0
// Servers against SmartNICs: every server of the baseline replaced by phi SmartNICs, which carry the same
// devices together. Pure. Source: Lovelock, sections 4 and 5.
#pragma once

#include <string>
#include <vector>

#include "planner/cluster_model.h"
#include "planner/price_ratio.h"

namespace spillway::planner {

struct Comparison {
  double phi = 1;
  Mix mix;
  double slowdown = 0;  // mu
  TimeShares time;
  // Of the traditional cluster over this one: > 1 is a saving.
  double cost = 0, cost_with_fabric = 0, cost_with_right_sized_fabric = 0;
  double energy = 0, energy_with_fabric = 0;
  std::vector<Check> broken;  // limits of slowdown and of nodes that it does not meet
};

// The baseline with phi x as many of workload.compare_node, on the baseline's fabric.
[[nodiscard]] Mix ReplaceServers(const Workload& workload, double phi);

// The yardstick of the workload's cpu share that its compare_node has no throughput for; "": none, they
// compare.
[[nodiscard]] std::string MissingYardstick(const PlanInput& input);

// For phi = 1..most_phi.
[[nodiscard]] std::vector<Comparison> Compare(const ClusterModel& model, int most_phi);

}  // namespace spillway::planner
