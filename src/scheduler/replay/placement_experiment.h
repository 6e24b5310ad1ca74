// SPDX-License-Identifier: Apache-2.0
// The placement experiment of FGD (USENIX ATC 2023): jobs come one by one and never leave, until they have
// asked for 130 % of the cluster's GPUs; how much of the cluster is allocated? Pure; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "scheduler/placer.h"
#include "scheduler/rehearsal.h"
#include "scheduler/replay/openb_lists.h"
#include "scheduler/replay/placement_bound.h"

namespace spillway::scheduler {

struct PlacementOptions {
  std::vector<Policy> policies;
  Objective objective = Objective::kFragmentation;
  int seeds = 10;  // 1, 2, ...: each shuffles the jobs anew
  // Find upper bounds too, unless the jobs are of more than kMaxBoundShapes shapes: on openb seconds for the
  // first seed, tenths for each other.
  bool bound = false;
  // How policy `spillway` comes by its prices, a row each. Nothing: the rule is chosen by rehearsal, and its
  // prices are changed by so many trials.
  std::vector<std::optional<PriceRule>> prices = {std::nullopt};
  int trials = kTrials;
};

struct PlacementRun {
  Policy policy = Policy::kSpillway;
  std::optional<PriceRule> prices;  // of policy `spillway`
  bool rehearsed = false;           // they were chosen by rehearsal
  uint64_t seed = 0;
  double at_100 = 0, at_130 = 0;  // % of the cluster's milli that are allocated
  // Allocated % when the demand that came was 0, kCurveStep, 2 x kCurveStep, ... % of the cluster.
  std::vector<double> curve;
  int dropped = 0;
  std::optional<PlacementBound> bound;  // of this seed's jobs, at 130 %
};
inline constexpr int kCurveStep = 5;
inline constexpr int kDemandPct = 130;

// How many runs the options ask for.
[[nodiscard]] size_t CountRuns(const PlacementOptions& options);

// `tell(done, total)` after each run; `stop` is asked before each and while bounds are found: then the runs
// of the seeds that are done are returned.
[[nodiscard]] std::vector<PlacementRun> RunPlacement(const NodeList& nodes, const JobList& jobs,
                                                     const PlacementOptions& options,
                                                     const std::function<void(size_t, size_t)>& tell,
                                                     const std::function<bool()>& stop);

// The jobs in the order in which they come under that seed: the list, shuffled, then jobs drawn uniformly
// from it, until all ask for kDemandPct of `milli`. A list that asks for more is cut there.
[[nodiscard]] std::vector<Job> DrawJobs(const JobList& jobs, int64_t milli, uint64_t seed);

// The nodes in the order in which ties between them are broken under that seed. The published runs name the
// nodes by a random permutation per seed and break ties by name; in the file's order, where equal nodes stand
// together, FGD and its peers do up to 0.4 points worse or better.
[[nodiscard]] std::vector<Node> ShuffleNodes(std::vector<Node> nodes, uint64_t seed);

}  // namespace spillway::scheduler
