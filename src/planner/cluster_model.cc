// SPDX-License-Identifier: Apache-2.0
#include "planner/cluster_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "planner/training_traffic.h"

namespace spillway::planner {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
// Sums of equal parts may miss 1 by rounding; a limit is not broken by that.

double YardstickOf(const Node& node, const std::string& yardstick) {
  const auto found = node.throughput.find(yardstick);
  return found == node.throughput.end() ? 0 : found->second;
}

}  // namespace

std::string ToString(Limit limit) {
  constexpr std::array<const char*, kLimits> kWords = {
      "slowdown",         "cost",         "power",           "memory", "host cpu",
      "memory bandwidth", "device slots", "storage capacity"};
  return kWords[static_cast<size_t>(limit)];
}

std::string UnitOf(Limit limit) {
  constexpr std::array<const char*, kLimits> kUnits = {"", "USD", "W", "GB", "", "", "", "TB"};
  return kUnits[static_cast<size_t>(limit)];
}

double Check::Ratio() const {
  if (!at_least) return value / bound;
  return value > 0 ? bound / value : (bound > 0 ? kNoLimit : 0);
}

bool Evaluation::Feasible() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& c) { return c.Ratio() <= 1 + kRounding; });
}

ClusterModel::ClusterModel(const PlanInput& input) : input_(input) {
  const Workload& w = input.workload;
  const Group* workers = w.Baseline(w.Workers());
  const Node* reference = workers != nullptr ? &input.catalogue.nodes[workers->node] : nullptr;
  for (const Node& node : input.catalogue.nodes) {
    // The cpu part of a run on one node after the other: the time of each yardstick adds up.
    double time = w.cpu.empty() ? 1 : 0;
    for (const auto& [yardstick, share] : w.cpu) {
      const double own = YardstickOf(node, yardstick);
      time += own > 0 && reference != nullptr ? share * YardstickOf(*reference, yardstick) / own : kNoLimit;
    }
    speed_.push_back(1 / time);
  }
  for (NodeKind kind : kNodeKinds) {
    for (const Group& group : w.baseline.groups)
      if (group.kind == kind)
        baseline_[static_cast<size_t>(kind)] =
            Sum(baseline_[static_cast<size_t>(kind)], ResourcesOf(group, w.baseline.fabric));
  }
  const Resources& storage = baseline_[static_cast<size_t>(NodeKind::kStorage)];
  baseline_storage_gbps_ = baseline_[static_cast<size_t>(w.Workers())].network_gbps;
  if (storage.nodes > 0)
    baseline_storage_gbps_ = std::min({baseline_storage_gbps_, storage.network_gbps, storage.drives_gbps});
}

double ClusterModel::NodeGbps(const Node& node, const Fabric& fabric) const {
  return std::min(node.network_gbps, fabric.port_gbps / fabric.oversubscription);
}

bool ClusterModel::Comparable(size_t index, NodeKind kind) const {
  const Node& node = input_.catalogue.nodes[index];
  const Workload& w = input_.workload;
  if (kind == w.Workers() && !(speed_[index] > 0)) return false;
  return kind != NodeKind::kAccelerator || w.host_yardstick.empty() ||
         YardstickOf(node, w.host_yardstick) > 0;
}

Resources ClusterModel::ResourcesOf(const Group& group, const Fabric& fabric) const {
  const Node& node = input_.catalogue.nodes[group.node];
  const FabricPrices& prices = input_.catalogue.fabric;
  Resources sum;
  sum.nodes = group.nodes;
  sum.cost_usd =
      group.nodes * (node.price_usd + prices.UsdPerPort(fabric.port_gbps, fabric.oversubscription));
  sum.power_w = group.nodes * (node.power_w + prices.WattsPerPort(fabric.port_gbps, fabric.oversubscription));
  sum.speed = group.nodes * speed_[group.node];
  sum.network_gbps = group.nodes * NodeGbps(node, fabric);
  if (group.devices == 0) return sum;
  const Device& device = input_.catalogue.devices[group.device];
  sum.cost_usd += group.devices * device.price_usd;
  sum.power_w += group.devices * device.power_w;
  sum.devices = group.devices;
  sum.drives_gbps = group.devices * device.gb_per_s * 8;
  return sum;
}

double ClusterModel::TrafficGrowth(double nodes) const {
  const double share = input_.workload.all_reduce;
  if (share == 0) return 1;
  const double before = baseline_[static_cast<size_t>(NodeKind::kAccelerator)].nodes;
  return (1 - share) + share * AllReduceGrowth(before, nodes);
}

TimeShares ClusterModel::PartsOf(NodeKind kind, const Resources& now) const {
  const Workload& w = input_.workload;
  const Resources& before = baseline_[static_cast<size_t>(kind)];
  TimeShares time;
  if (kind == w.Workers()) {
    time.cpu = Scaled(w.time.cpu, before.speed, now.speed);
    time.shuffle = Scaled(w.time.shuffle, before.network_gbps, now.network_gbps);
  }
  if (kind == NodeKind::kAccelerator && w.time.accelerator + w.time.stall > 0) {
    const double compute = before.devices / now.devices, network = before.network_gbps / now.network_gbps;
    const double growth = TrafficGrowth(now.nodes);
    const double whole = AcceleratorTime(w.time, w.overlap, compute, network, growth);
    // What the accelerators compute; the rest of the whole is waiting.
    time.accelerator = std::min(whole, w.time.accelerator * compute);
    time.stall = whole - time.accelerator;
  }
  return time;
}

double ClusterModel::StorageTime(NodeKind kind, const Resources& now) const {
  const Workload& w = input_.workload;
  if (kind == NodeKind::kStorage)
    return Scaled(w.time.storage, baseline_storage_gbps_, std::min(now.network_gbps, now.drives_gbps));
  return kind == w.Workers() ? Scaled(w.time.storage, baseline_storage_gbps_, now.network_gbps) : 0;
}

// Tells of every limit that concerns one group: tell(limit, group, value, bound, at_least).
template <class Tell>
void ClusterModel::Visit(std::span<const Group> groups, const Fabric& fabric, Tell tell) const {
  const Workload& w = input_.workload;
  int nodes = 0;
  for (const Group& group : groups) nodes += group.nodes;
  for (const Group& group : groups) {
    const Node& node = input_.catalogue.nodes[group.node];
    const bool accelerates = group.kind == NodeKind::kAccelerator, works = group.kind == w.Workers();
    NodeMemory memory = w.memory;
    if (!works) memory.data_gb = 0;  // the data are with the workers
    if (group.kind == NodeKind::kStorage) memory.runtime_gb = 0;
    const double needed = accelerates
                              ? AcceleratorMemoryGb(memory, w.checkpoint, nodes, group.DevicesPerNode())
                              : WorkerMemoryGb(memory, nodes);
    tell(Limit::kMemory, group, needed, node.memory_gb * w.limits.memory_share, false);
    if (group.devices > 0) tell(Limit::kSlots, group, group.DevicesPerNode(), node.device_slots, false);
    if (accelerates && !w.host_yardstick.empty())
      tell(Limit::kHostCpu, group, group.DevicesPerNode() * w.host_peak, YardstickOf(node, w.host_yardstick),
           false);
    if (works && w.limits.memory_over_network > 0)
      tell(Limit::kMemoryBandwidth, group, node.dram.GbPerS() / (NodeGbps(node, fabric) / 8),
           w.limits.memory_over_network, true);
    if (group.kind == NodeKind::kStorage && w.limits.storage_tb)
      tell(Limit::kStorageCapacity, group, group.devices * input_.catalogue.devices[group.device].capacity_tb,
           *w.limits.storage_tb, true);
  }
}

GroupTime ClusterModel::TimeOf(NodeKind kind, const Resources& resources) const {
  return {PartsOf(kind, resources).Sum(), StorageTime(kind, resources)};
}

Ratios ClusterModel::RatiosOf(std::span<const Group> groups, const Fabric& fabric) const {
  Ratios ratios{};
  Visit(groups, fabric, [&](Limit limit, const Group&, double value, double bound, bool at_least) {
    double& ratio = ratios[static_cast<size_t>(limit)];
    ratio = std::max(ratio, Check{limit, "", value, bound, at_least}.Ratio());
  });
  return ratios;
}

Evaluation ClusterModel::Evaluate(const Mix& mix) const {
  const Catalogue& catalogue = input_.catalogue;
  Evaluation sum;
  double storage_time = 0;
  for (NodeKind kind : kNodeKinds) {
    std::vector<Group> groups;
    for (const Group& group : mix.groups)
      if (group.kind == kind) groups.push_back(group);
    if (groups.empty()) continue;
    for (const Group& group : groups) {
      sum.nodes_usd += group.nodes * catalogue.nodes[group.node].price_usd;
      sum.nodes_w += group.nodes * catalogue.nodes[group.node].power_w;
      sum.fabric_usd +=
          group.nodes * catalogue.fabric.UsdPerPort(mix.fabric.port_gbps, mix.fabric.oversubscription);
      sum.fabric_w +=
          group.nodes * catalogue.fabric.WattsPerPort(mix.fabric.port_gbps, mix.fabric.oversubscription);
      if (group.devices == 0) continue;
      sum.devices_usd += group.devices * catalogue.devices[group.device].price_usd;
      sum.devices_w += group.devices * catalogue.devices[group.device].power_w;
    }
    Resources now;
    for (const Group& group : groups) now = Sum(now, ResourcesOf(group, mix.fabric));
    const TimeShares part = PartsOf(kind, now);
    sum.time.cpu += part.cpu;
    sum.time.shuffle += part.shuffle;
    sum.time.accelerator += part.accelerator;
    sum.time.stall += part.stall;
    storage_time = std::max(storage_time, StorageTime(kind, now));
    Visit(groups, mix.fabric,
          [&](Limit limit, const Group& group, double value, double bound, bool at_least) {
            sum.checks.push_back(
                {limit, fmt::format("{} nodes ({})", ToString(kind), catalogue.nodes[group.node].name), value,
                 bound, at_least});
          });
  }
  sum.time.storage = storage_time;
  sum.slowdown = sum.time.Sum();
  const Limits& limits = input_.workload.limits;
  sum.checks.push_back({Limit::kSlowdown, "", sum.slowdown, limits.slowdown, false});
  if (limits.cost_usd) sum.checks.push_back({Limit::kCost, "", sum.CostUsd(), *limits.cost_usd, false});
  if (limits.power_w) sum.checks.push_back({Limit::kPower, "", sum.PowerW(), *limits.power_w, false});
  return sum;
}

}  // namespace spillway::planner
