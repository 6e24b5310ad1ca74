// SPDX-License-Identifier: Apache-2.0
// What a mix costs, draws and needs, and how long the workload takes on it. The terms of each group stand
// by themselves, so that the search can put groups together without asking again. Pure; the model refers
// to its input, which must outlive it. Thread-safe.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "planner/workload.h"

namespace spillway::planner {

enum class Limit {
  kSlowdown,
  kCost,
  kPower,
  kMemory,           // of every node
  kHostCpu,          // cores of accelerator nodes, at their peak
  kMemoryBandwidth,  // DRAM over network, of workers
  kSlots,            // PCIe devices per node
  kStorageCapacity,
};
// Relative: sums in another order differ by less, and are to be the same.
inline constexpr double kRounding = 1e-9;

inline constexpr size_t kLimits = 8;
inline constexpr size_t kFirstGroupLimit = static_cast<size_t>(Limit::kMemory);  // from here: of a group
[[nodiscard]] std::string ToString(Limit limit);  // "slowdown", "memory bandwidth", ...
[[nodiscard]] std::string UnitOf(Limit limit);    // "GB", "USD", ... "" for plain ratios

// By Limit: how far what a mix needs exceeds what there is: needed / allowed; > 1: the limit is broken.
// 0: no such limit.
using Ratios = std::array<double, kLimits>;

// One limit, as seen by one group or by the whole mix.
struct Check {
  Limit limit = Limit::kSlowdown;
  std::string subject;  // "accelerator nodes (ipu-e2000)"; empty: the whole mix
  double value = 0, bound = 0;
  bool at_least = false;  // value must be >= bound; else <=
  double Ratio() const;
};

// What nodes of one kind bring, and what they take: sums over groups, linear in the number of nodes.
struct Resources {
  double cost_usd = 0, power_w = 0;  // nodes, devices and ports
  double speed = 0;                  // throughput of the cpu part; a node of the baseline's workers is 1
  double network_gbps = 0;           // that reaches across the fabric
  double devices = 0, drives_gbps = 0;
  double nodes = 0;
};
[[nodiscard]] inline Resources Sum(const Resources& a, const Resources& b, double of_b = 1) {
  return {a.cost_usd + of_b * b.cost_usd, a.power_w + of_b * b.power_w,
          a.speed + of_b * b.speed,       a.network_gbps + of_b * b.network_gbps,
          a.devices + of_b * b.devices,   a.drives_gbps + of_b * b.drives_gbps,
          a.nodes + of_b * b.nodes};
}

// What the nodes of one kind add to the execution time, relative to the baseline's whole.
struct GroupTime {
  double own = 0;      // their own parts
  double storage = 0;  // the part spent on remote storage, if they were its narrowest place
};

struct Evaluation {
  double nodes_usd = 0, devices_usd = 0, fabric_usd = 0;
  double nodes_w = 0, devices_w = 0, fabric_w = 0;
  TimeShares time;  // what became of each part; overlapped accelerator time is shown as accelerator
  double slowdown = 0;
  std::vector<Check> checks;

  double CostUsd() const { return nodes_usd + devices_usd + fabric_usd; }
  double PowerW() const { return nodes_w + devices_w + fabric_w; }
  // Of one run of the workload, relative to a cluster of 1 W that takes the baseline's time.
  double Energy() const { return PowerW() * slowdown; }
  bool Feasible() const;
};

class ClusterModel {
 public:
  explicit ClusterModel(const PlanInput& input);

  [[nodiscard]] Evaluation Evaluate(const Mix& mix) const;

  // What a mix is made of, for a search that puts it together: the whole mix costs and draws the sum, and
  // takes the sum of the kinds' own time and the greatest of their storage time.
  [[nodiscard]] Resources ResourcesOf(const Group& group, const Fabric& fabric) const;
  [[nodiscard]] GroupTime TimeOf(NodeKind kind, const Resources& resources) const;
  // Of the limits of groups. `groups`: all of one kind.
  [[nodiscard]] Ratios RatiosOf(std::span<const Group> groups, const Fabric& fabric) const;

  // Gb/s of a node that reach others across the fabric: the least of its NIC and its share of the spine.
  [[nodiscard]] double NodeGbps(const Node& node, const Fabric& fabric) const;
  // Throughput of a node on the workload's cpu part; the baseline's worker is 1.
  [[nodiscard]] double Speed(size_t node) const { return speed_[node]; }
  // Whether the node is comparable: it has every yardstick that the workload asks of that kind.
  [[nodiscard]] bool Comparable(size_t node, NodeKind kind) const;

  const PlanInput& input() const { return input_; }

 private:
  double TrafficGrowth(double nodes) const;
  TimeShares PartsOf(NodeKind kind, const Resources& now) const;
  double StorageTime(NodeKind kind, const Resources& now) const;
  template <class Tell>
  void Visit(std::span<const Group> groups, const Fabric& fabric, Tell tell) const;

  const PlanInput& input_;
  std::vector<double> speed_;                            // by catalogue node
  std::array<Resources, kNodeKinds.size()> baseline_{};  // by NodeKind
  double baseline_storage_gbps_ = 0;
};

}  // namespace spillway::planner
