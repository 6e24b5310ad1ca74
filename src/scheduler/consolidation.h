// SPDX-License-Identifier: Apache-2.0
// Fewer GPUs on, by moving jobs that run: a move has a price, a GPU switched off is worth something, and
// nothing is moved that does not pay. Pure; one thread.
//
// One step empties one GPU: its jobs go to others that are on, where need be by pushing a smaller job aside,
// which then needs a place itself. Of all such plans within the effort the one that saves most is taken, and
// steps are repeated while they pay. How far that is from the optimum `spillway sched optimal --check` says.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "scheduler/cluster.h"

namespace spillway::scheduler {

struct Move {
  JobId job;
  Spot from, to;
};

struct MovePolicy {
  double gpu_value = 1;     // of a GPU that is off (the MILP's eps1)
  double move_price = 0.3;  // of a move, times the job's move_cost (eps2). The default: three moves for a GPU
  int64_t budget = std::numeric_limits<int64_t>::max();  // moves, for the lifetime of the consolidator
  // Jobs per step that leave a GPU that stays on. From 2 on, all else that may help is tried, too: pairs of
  // GPUs, every place of a slice. Better plans, far slower.
  int pushed_aside = 1;
  int effort = 20'000;  // GPUs and jobs looked at per step: bounds the time of a decision
};

class Consolidator {
 public:
  Consolidator(Cluster& cluster, MovePolicy policy) : cluster_(cluster), policy_(policy) {}

  // Moves while it pays; what was moved, in order.
  std::vector<Move> Consolidate();

  // Places a job that is new on a GPU that is on, moving others there if that costs less than a GPU, or on
  // one that is off. False: it fits nowhere. For jobs that ask for a part of a GPU. `moves`: those it took.
  bool Arrive(JobId id, const Job& job, std::vector<Move>& moves);

  [[nodiscard]] int64_t moves() const { return moves_; }

 private:
  struct GpuRef {
    int node, gpu;
    bool operator==(const GpuRef&) const = default;
  };
  struct Step {
    JobId job;
    Spot to;
  };
  std::vector<GpuRef> SharedGpus() const;
  uint64_t KindOf(const GpuRef& gpu) const;
  double CostOf(JobId id) const;
  void Search(std::vector<JobId>& waiting, double cost, int aside);
  void TryPlace(std::vector<JobId>& waiting, JobId id, double cost, int aside);
  void TryPushAside(std::vector<JobId>& waiting, JobId id, double cost, int aside);
  bool Moved(JobId id) const;
  bool Emptied(const GpuRef& gpu) const;
  std::vector<int> StartsFor(JobId id, int node) const;
  bool EmptyOne(std::vector<Move>& moves);

  Cluster& cluster_;
  MovePolicy policy_;
  int64_t moves_ = 0;

  // Of the search that is under way.
  std::vector<GpuRef> gpus_;  // that jobs may go to
  std::vector<GpuRef> emptied_;
  JobId newcomer_ = kNobody;  // costs nothing to place
  std::vector<Job> jobs_;     // by id, of those that are off the cluster meanwhile
  std::vector<Step> plan_, best_plan_;
  double best_cost_ = 0;
  int effort_left_ = 0;
  static constexpr JobId kNobody = ~JobId{0};
};

}  // namespace spillway::scheduler
