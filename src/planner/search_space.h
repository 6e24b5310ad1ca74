// SPDX-License-Identifier: Apache-2.0
// The candidates of a workload: all combinations of a choice per kind of node and a fabric. The search
// answers as if it had asked each of them; whoever wants to be sure asks each of them here. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "planner/cluster_model.h"

namespace spillway::planner {

// Of what has no limit.
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The kinds that a mix must have: those of the baseline.
[[nodiscard]] std::vector<NodeKind> KindsOf(const Workload& workload);

// Catalogue entries that may be nodes of this kind: allowed by the workload, fit for the kind, comparable.
[[nodiscard]] std::vector<size_t> NodesFor(const ClusterModel& model, NodeKind kind);

[[nodiscard]] std::vector<Fabric> FabricsOf(const Space& space);

// Every choice for a kind with devices (accelerator, storage): each is one group.
[[nodiscard]] std::vector<Group> DeviceGroups(const ClusterModel& model, NodeKind kind);

// How many choices there are for lite compute nodes: one type, or two of different types.
[[nodiscard]] uint64_t LiteComputeChoices(const ClusterModel& model);

// How many mixes there are.
[[nodiscard]] uint64_t CountCandidates(const ClusterModel& model);

// Every mix, one after the other.
void ForEachCandidate(const ClusterModel& model, const std::function<void(const Mix&)>& visit);

}  // namespace spillway::planner
