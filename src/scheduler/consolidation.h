// SPDX-License-Identifier: Apache-2.0
// Fewer GPUs on, by moving jobs that run: a move has a price, a GPU switched off is worth something, and
// nothing is moved that does not pay. Pure; one thread.
//
// One step empties one GPU: its jobs go to others that are on, where need be by pushing a smaller job aside,
// which then needs a place itself. Of all such plans within the effort the one that saves most is taken, and
// steps are repeated while they pay. How far that is from the optimum `spillway sched optimal --check` says.
//
// Where moves take time (MovePolicy::move_seconds) a job has both places meanwhile: its new one is in the
// cluster when a call returns; the old one the caller keeps there, as a job of its own that he holds (Hold),
// until the move is over. With an outlook a GPU is emptied only if that saves more GPU time than it costs.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
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
  // For so long a job that moves has both places: the new one begins, the old one drains and ends. Above 0 a
  // place is free for others only when that is over, so nobody is pushed aside, and a job that was moved is
  // held.
  double move_seconds = 0;
  // Jobs per step that leave a GPU that stays on. From 2 on, all else that may help is tried, too: pairs of
  // GPUs, every place of a slice. Better plans, far slower.
  int pushed_aside = 1;
  int effort = 20'000;  // GPUs and jobs looked at per step: bounds the time of a decision
};

// For how long a job will probably stay, in seconds at the speed of the GPU that it is on.
using Outlook = std::function<double(JobId)>;
// What a job loses on a node for as long as it stays there, in GPUs that are off; at least 0, the same for
// all nodes of one GPU model. kImmovable: it must not go there.
using Loss = std::function<double(JobId, int node)>;
constexpr double kImmovable = 1e6;

class Consolidator {
 public:
  Consolidator(Cluster& cluster, MovePolicy policy) : cluster_(cluster), policy_(policy) {}

  // From now on a GPU is emptied only if, as `outlook` has it, that pays back: GPUs are on for less time, by
  // more than what the jobs hold twice meanwhile. Without one, GPUs are taken to stay on for ever.
  void ForeseeBy(Outlook outlook) { outlook_ = std::move(outlook); }
  // From now on a move's price has that on top. Without one, a job is worth as much on all nodes.
  void PriceBy(Loss loss) { loss_ = std::move(loss); }

  // The job takes part in a move that is under way: it is not moved, nor is its GPU emptied, until Release.
  // `leaves`: it stands for the old place of one. A GPU that has nothing else is going off: nobody is moved
  // there, and a new job only where it would switch a GPU on otherwise.
  void Hold(JobId id, bool leaves = false);
  void Release(JobId id);
  [[nodiscard]] bool GoingOff(int node, int gpu) const;

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
  struct Candidate {
    double cost;     // of moving all its jobs
    int load, room;  // milli
    GpuRef gpu;
  };
  std::vector<GpuRef> SharedGpus() const;
  uint64_t KindOf(const GpuRef& gpu) const;
  double CostOf(JobId id) const;
  double CostAt(JobId id, int node) const;
  int Aside() const { return policy_.move_seconds > 0 ? 0 : policy_.pushed_aside; }
  bool Held(JobId id) const { return id < holds_.size() && holds_[id] != Holding::kFree; }
  bool PaysBack() const;
  std::optional<Spot> PlaceThatSwitchesOn(const Job& job) const;
  void Search(std::vector<JobId>& waiting, double cost, int aside);
  void TryPlace(std::vector<JobId>& waiting, JobId id, double cost, int aside);
  void TryPushAside(std::vector<JobId>& waiting, JobId id, double cost, int aside);
  bool Moved(JobId id) const;
  bool Emptied(const GpuRef& gpu) const;
  std::vector<int> StartsFor(JobId id, int node) const;
  void Remember(JobId id);
  std::vector<Candidate> Candidates(int& free);
  bool EmptyOne(std::vector<Move>& moves);
  void CarryOut(std::vector<Move>& moves);

  Cluster& cluster_;
  MovePolicy policy_;
  Outlook outlook_;
  Loss loss_;
  int64_t moves_ = 0;
  enum class Holding : uint8_t { kFree, kStays, kLeaves };
  std::vector<Holding> holds_;  // by id

  // Of the search that is under way.
  std::vector<GpuRef> gpus_;  // that jobs may go to
  std::vector<GpuRef> emptied_;
  JobId newcomer_ = kNobody;  // costs nothing to place
  std::vector<Job> jobs_;     // by id, of those that are off the cluster meanwhile
  std::vector<Spot> homes_;   // of the same jobs: where they were
  bool emptying_ = false;     // as opposed to finding a place for the newcomer
  std::vector<Step> plan_, best_plan_;
  double best_cost_ = 0;
  int effort_left_ = 0;
  static constexpr JobId kNobody = ~JobId{0};
};

}  // namespace spillway::scheduler
