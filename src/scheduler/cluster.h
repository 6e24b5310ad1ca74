// SPDX-License-Identifier: Apache-2.0
// The cluster's state: nodes, their GPUs, and which job is where. It keeps the rules (nothing is given twice,
// slices lie where MIG allows, tenants stay apart) and decides nothing. Pure; one thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "scheduler/job.h"

namespace spillway::scheduler {

inline constexpr int kMaxGpus = 16;  // of a node
inline constexpr int kUnlimited = std::numeric_limits<int>::max() / 2;
inline constexpr int kNoTenant = -1;

struct Node {
  std::string name;
  int cpu_milli = kUnlimited, memory_mib = kUnlimited;  // in all
  int gpus = 1;
  int model = 0;  // index into the cluster's models

  // What is left. The cluster keeps these; a node that is added has all of it.
  int free_cpu = 0, free_memory = 0;
  std::array<int16_t, kMaxGpus> free = {};      // milli. Under isolation `fraction`: the slices' compute
  std::array<SliceMask, kMaxGpus> slices = {};  // taken, under isolation `fraction`
  std::array<uint16_t, kMaxGpus> jobs = {};
  std::array<int, kMaxGpus> tenant = {};  // of the jobs there; kNoTenant while none is
  // Jobs on the node by how many whole GPUs they have; [0]: those with a part of one. Not the CPU-only ones.
  std::array<uint16_t, kMaxGpus + 1> jobs_by_gpus = {};

  int IdleGpus() const;
  int FreeMilli() const;
};

struct Rules {
  Isolation isolation = Isolation::kNone;
  SliceRule slice_rule = SliceRule::kCompute;  // what counts under isolation `fraction`
  bool operator==(const Rules&) const = default;
};

using JobId = uint32_t;

class Cluster {
 public:
  Cluster(std::vector<Node> nodes, std::vector<GpuModel> models, Rules rules = {});

  // Would the job fit there now? For a part of one GPU.
  [[nodiscard]] bool FitsGpu(const Job& job, int node, int gpu) const;
  // Everything about the node but its GPUs: model, CPU, memory.
  [[nodiscard]] bool FitsHost(const Job& job, const Node& node) const {
    return node.free_cpu >= job.cpu_milli && node.free_memory >= job.memory_mib &&
           (job.gpus == 0 || job.Accepts(node.model));
  }
  [[nodiscard]] bool FitsNode(const Job& job, int node) const;  // on any of its GPUs
  // The milli that a job for a part of a GPU takes of one there: more than it asks for where it gets a slice.
  [[nodiscard]] int ShareOn(const Job& job, const Node& node) const;
  // What an idle GPU of the node has, in milli.
  [[nodiscard]] int CapacityOf(const Node& node) const {
    return std::min(models_[node.model].slices, 7) * kWholeGpu / 7;
  }
  // Only an exact place: under isolation `fraction` the very slices must be free.
  [[nodiscard]] bool FitsSpot(const Job& job, const Spot& spot) const;

  // Why not, in words; empty: it fits. Takes any spot of a node that there is.
  [[nodiscard]] std::string WhyNot(const Job& job, const Spot& spot) const;

  // The job is there from now on. It must fit, and `id` must not be placed. spot.start < 0: the cluster
  // chooses (BestStart). Ids are small numbers, given again after Remove as the caller likes.
  void Place(JobId id, const Job& job, Spot spot);
  void Remove(JobId id);

  [[nodiscard]] bool Placed(JobId id) const { return id < placed_.size() && placed_[id].spot.node >= 0; }
  [[nodiscard]] const Job& JobOf(JobId id) const { return placed_[id].job; }
  [[nodiscard]] const Spot& SpotOf(JobId id) const { return placed_[id].spot; }
  [[nodiscard]] uint32_t WholeGpusOf(JobId id) const { return placed_[id].whole_gpus; }  // bits
  // The jobs that have a part of this GPU to themselves, in no order. Whole GPUs are not in it.
  [[nodiscard]] const std::vector<JobId>& SharersOf(int node, int gpu) const {
    return sharers_[first_gpu_[node] + gpu];
  }

  // All jobs of a node, those without GPUs, too, in no order.
  [[nodiscard]] const std::vector<JobId>& JobsOn(int node) const { return jobs_on_[node]; }

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] const std::vector<GpuModel>& models() const { return models_; }
  [[nodiscard]] const Rules& rules() const { return rules_; }
  [[nodiscard]] int gpus() const { return gpus_; }
  [[nodiscard]] int gpus_on() const { return gpus_on_; }  // on which a job is
  [[nodiscard]] int64_t allocated_milli() const { return allocated_milli_; }

  // The nodes that changed, one entry per change, oldest first; the number of all changes so far, of which
  // the last kChangesKept can be looked up. So a reader of scores knows what is out of date.
  static constexpr uint64_t kChangesKept = 4096;
  [[nodiscard]] uint64_t changes() const { return changes_; }
  [[nodiscard]] int ChangedNode(uint64_t change) const { return changed_[change % kChangesKept]; }

  // Every rule, checked the slow way from the list of jobs; empty, or what is broken. For tests.
  [[nodiscard]] std::string Check() const;

 private:
  struct PlacedJob {
    Job job;
    Spot spot;
    uint32_t whole_gpus = 0;  // bits
    Profile profile = Profile::k7g;
  };
  // The slices that a GPU of the model is without.
  SliceMask MissingSlices(int model) const { return static_cast<SliceMask>(0xff << models_[model].slices); }
  void Touch(int node) { changed_[changes_++ % kChangesKept] = node; }

  std::vector<Node> nodes_;
  std::vector<GpuModel> models_;
  Rules rules_;
  std::vector<PlacedJob> placed_;
  std::vector<size_t> first_gpu_;
  std::vector<std::vector<JobId>> sharers_;
  std::vector<std::vector<JobId>> jobs_on_;
  int gpus_ = 0, gpus_on_ = 0;
  int64_t allocated_milli_ = 0;
  uint64_t changes_ = 0;
  std::array<int, kChangesKept> changed_ = {};
};

}  // namespace spillway::scheduler
