// SPDX-License-Identifier: Apache-2.0
// A fleet as the scheduler's cluster: a node per GPU that can be used now, and a job per instance that has a
// place there, be it starting, draining or ending. What a model asks of a GPU becomes a job here: GPUs of
// hosts that list other programs are of other models to the cluster, so that a job accepts those that it can
// run on. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/cluster.h"
#include "scheduler/controller/fleet.h"

namespace spillway::scheduler {

struct FleetRules {
  Isolation isolation = Isolation::kFraction;
  bool is_sharing = true;  // false: every instance has a GPU to itself
};

// HOST/GPU
[[nodiscard]] std::string GpuKey(const std::string& host, const std::string& gpu);

class FleetView {
 public:
  // Left out: GPUs of hosts that are not up, GPUs that are in trouble (Fleet::gpu_troubles), `avoid`
  // (HOST/GPU), and those that something is on that the rules do not allow any more.
  FleetView(const Fleet& fleet, const FleetRules& rules, const std::string& avoid = {});

  // The fleet's youngest instance, which takes no other's place and runs a model that the fleet had before:
  // the view is then as one that is made anew. False: it is not; make a new one.
  [[nodiscard]] bool Add(const Fleet& fleet, const Instance& one);

  [[nodiscard]] Cluster& cluster() { return cluster_; }
  // As a new instance of it would be, one of them. Where its memory is another share of unlike GPUs, each
  // asks for a share that is enough on all that it accepts: the smallest first, which accepts the fewest.
  [[nodiscard]] std::vector<Job> JobsOf(const ServedModel& model) const;
  [[nodiscard]] Job JobOf(const ServedModel& model) const { return JobsOf(model).front(); }
  [[nodiscard]] SlicePlace PlaceOf(const Job& job, const Spot& spot) const;
  // Why that place cannot be had now; empty: it can.
  [[nodiscard]] std::string WhyNot(const ServedModel& model, const SlicePlace& place) const;
  [[nodiscard]] int NodeOf(const std::string& gpu_key) const;  // -1: not to be used now
  // By the cluster's model: what hosts call it. Several may be called the same.
  [[nodiscard]] const std::vector<std::string>& gpu_models() const { return gpu_models_; }
  [[nodiscard]] const std::string& HostOf(int node) const { return gpus_[node].first; }
  [[nodiscard]] const std::string& GpuModelOf(int node) const {
    return gpu_models_[cluster_.nodes()[node].model];
  }
  [[nodiscard]] uint64_t InstanceOf(JobId job) const { return instances_[job]; }
  [[nodiscard]] JobId next_job() const { return static_cast<JobId>(instances_.size()); }
  // Only those that are ready, known to live and not moving already may be moved.
  [[nodiscard]] bool MayMove(JobId job) const;

 private:
  [[nodiscard]] bool PlaceAll(const Fleet& fleet, std::string& blocked);
  [[nodiscard]] Job JobAt(const Fleet& fleet, const Instance& one, int node, bool& may_move) const;
  [[nodiscard]] std::optional<Job> JobFor(const ServedModel& model, const SlicePlace& place, int node) const;
  [[nodiscard]] Job WithMemory(Job job, int memory_mib, int of_mib) const;

  FleetRules rules_;
  std::vector<std::pair<std::string, std::string>> gpus_;  // by node: host, GPU
  std::map<std::string, int> node_of_;                     // by HOST/GPU
  std::vector<int> memory_of_model_;                       // MiB; 0: not known
  std::vector<std::set<std::string>> programs_of_model_;   // of those that models ask for, on its hosts
  std::vector<std::string> gpu_models_;
  std::map<std::string, int> tenants_;
  std::set<uint64_t> replaced_;
  std::vector<uint64_t> instances_;  // by job
  std::vector<bool> may_move_;       // by job
  Cluster cluster_;
};

}  // namespace spillway::scheduler
