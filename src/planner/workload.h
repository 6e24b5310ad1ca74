// SPDX-License-Identifier: Apache-2.0
// A workload: where its time goes on a baseline cluster, what it needs, and which clusters may be tried
// instead. Plain values; docs/planner.md explains every key of the file (workload_reader.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/execution_time.h"
#include "planner/memory.h"
#include "planner/mix.h"

namespace spillway::planner {

// One model that a training workload may train; the figures are those of Lovelock's table 2.
struct TrainedModel {
  std::string name;
  double gb_per_accelerator = 0;
  double runtime_gb = 0;  // mean memory of the node that feeds the accelerators
  double host_peak = 0;   // per accelerator, in the workload's host yardstick
  bool operator==(const TrainedModel&) const = default;
};

// What every answer must respect. What is absent is no limit.
struct Limits {
  double slowdown = 1;  // execution time over the baseline's
  std::optional<double> cost_usd, power_w;
  double memory_share = 1;           // of a node's memory that may be used
  double memory_over_network = 0;    // a node's DRAM bandwidth over its network's, at least
  std::optional<double> storage_tb;  // that the drives must hold, all together
  bool operator==(const Limits&) const = default;
};

// Which mixes are candidates; every list ascends.
struct Space {
  std::vector<size_t> nodes;  // catalogue entries that may be used
  int most_nodes = 1;         // of one type in one group
  std::vector<int> accelerators_per_node = {1, 2, 4, 8};
  int most_accelerators = 0;  // over all nodes
  std::vector<int> drives_per_node = {1, 2, 4, 8, 16};
  std::vector<double> ports_gbps;
  std::vector<double> oversubscriptions = {1};
  bool operator==(const Space&) const = default;
};

// The workload as requests, for the simulator.
struct Requests {
  double service_ms = 1;  // of one request on one worker of the baseline, all parts included
  double load = 0.7;      // of what the baseline can answer
  double cv = 0.2;        // coefficient of variation of the service time
  bool operator==(const Requests&) const = default;
};

struct Workload {
  std::string name;
  TimeShares time;
  bool overlap = false;               // accelerators compute while data for the next step come
  double all_reduce = 0;              // share of the stall's traffic that is all-reduce
  std::map<std::string, double> cpu;  // yardstick -> share of the cpu part; they sum to 1
  NodeMemory memory;
  Checkpoint checkpoint;
  std::string host_yardstick;  // "": what feeds accelerators is no limit
  double host_peak = 0;        // per accelerator
  std::vector<TrainedModel> models;
  std::string model;  // of them, the one in force; its figures are in memory, checkpoint and host_peak
  Mix baseline;
  size_t compare_node = 0;  // the SmartNIC that `plan compare` puts in place of servers
  Limits limits;
  Space space;
  Requests requests;

  // The group of this kind in the baseline, or nullptr.
  const Group* Baseline(NodeKind kind) const;
  // The kind of nodes whose cores and network run the application: lite compute where the baseline has
  // such nodes, else accelerator.
  NodeKind Workers() const;
  bool operator==(const Workload&) const = default;
};

// Puts another of `models` in force. False: there is none of that name.
[[nodiscard]] bool UseModel(Workload& workload, const std::string& name);

// What a plan is made from.
struct PlanInput {
  Catalogue catalogue;
  Workload workload;
};

}  // namespace spillway::planner
