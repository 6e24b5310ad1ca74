// SPDX-License-Identifier: Apache-2.0
#include "planner/search_space.h"

namespace spillway::planner {

std::vector<NodeKind> KindsOf(const Workload& workload) {
  std::vector<NodeKind> kinds;
  for (NodeKind kind : kNodeKinds)
    if (workload.Baseline(kind) != nullptr) kinds.push_back(kind);
  return kinds;
}

std::vector<size_t> NodesFor(const ClusterModel& model, NodeKind kind) {
  std::vector<size_t> nodes;
  for (size_t node : model.input().workload.space.nodes)
    if (model.input().catalogue.nodes[node].Serves(kind) && model.Comparable(node, kind))
      nodes.push_back(node);
  return nodes;
}

std::vector<Fabric> FabricsOf(const Space& space) {
  std::vector<Fabric> fabrics;
  for (double port : space.ports_gbps)
    for (double oversubscription : space.oversubscriptions) fabrics.push_back({port, oversubscription});
  return fabrics;
}

std::vector<Group> DeviceGroups(const ClusterModel& model, NodeKind kind) {
  const Workload& w = model.input().workload;
  const bool accelerates = kind == NodeKind::kAccelerator;
  const size_t device = w.Baseline(kind)->device;
  std::vector<Group> groups;
  for (size_t node : NodesFor(model, kind)) {
    for (int per_node : accelerates ? w.space.accelerators_per_node : w.space.drives_per_node) {
      for (int nodes = 1; nodes <= w.space.most_nodes; nodes++) {
        if (accelerates && nodes * per_node > w.space.most_accelerators) break;
        groups.push_back({kind, node, nodes, nodes * per_node, device});
      }
    }
  }
  return groups;
}

uint64_t LiteComputeChoices(const ClusterModel& model) {
  const uint64_t types = NodesFor(model, NodeKind::kLiteCompute).size();
  const auto most = static_cast<uint64_t>(model.input().workload.space.most_nodes);
  return types * most + types * (types - 1) / 2 * most * most;
}

uint64_t CountCandidates(const ClusterModel& model) {
  uint64_t count = FabricsOf(model.input().workload.space).size();
  for (NodeKind kind : KindsOf(model.input().workload))
    count *= kind == NodeKind::kLiteCompute ? LiteComputeChoices(model) : DeviceGroups(model, kind).size();
  return count;
}

void ForEachCandidate(const ClusterModel& model, const std::function<void(const Mix&)>& visit) {
  const Workload& w = model.input().workload;
  // The choices of each kind, each a list of groups.
  std::vector<std::vector<std::vector<Group>>> choices;
  for (NodeKind kind : KindsOf(w)) {
    auto& of_kind = choices.emplace_back();
    if (kind != NodeKind::kLiteCompute) {
      for (const Group& group : DeviceGroups(model, kind)) of_kind.push_back({group});
      continue;
    }
    const auto nodes = NodesFor(model, kind);
    for (size_t a = 0; a < nodes.size(); a++) {
      for (int n = 1; n <= w.space.most_nodes; n++) {
        of_kind.push_back({{kind, nodes[a], n, 0, 0}});
        for (size_t b = a + 1; b < nodes.size(); b++)
          for (int m = 1; m <= w.space.most_nodes; m++)
            of_kind.push_back({{kind, nodes[a], n, 0, 0}, {kind, nodes[b], m, 0, 0}});
      }
    }
  }
  const std::function<void(size_t, Mix&)> choose = [&](size_t k, Mix& mix) {
    if (k == choices.size()) return visit(mix);
    for (const auto& groups : choices[k]) {
      mix.groups.insert(mix.groups.end(), groups.begin(), groups.end());
      choose(k + 1, mix);
      mix.groups.resize(mix.groups.size() - groups.size());
    }
  };
  for (const Fabric& fabric : FabricsOf(w.space)) {
    Mix mix{{}, fabric};
    choose(0, mix);
  }
}

}  // namespace spillway::planner
