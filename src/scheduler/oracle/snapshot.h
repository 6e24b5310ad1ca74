// SPDX-License-Identifier: Apache-2.0
// One moment of a cluster as Conspirator's MILP sees it: jobs that run, where they run, and one that has just
// come. The online heuristic answers it here; milp.h writes it down for an exact solver. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/consolidation.h"

namespace spillway::scheduler {

struct Snapshot {
  std::vector<Node> nodes = {};  // their GPUs and models; CPU and memory are left aside
  std::vector<GpuModel> models = {{"GPU", 1, true, 0}};
  Rules rules;
  double gpu_value = 10, move_price = 1;  // eps1, eps2
  std::vector<Job> jobs;                  // parts of a GPU, or whole ones of one node; the last one is new
  std::vector<Spot> homes;  // where they run; of whole GPUs `whole` says which. The new one's is nowhere
};

// Nodes of one GPU each, all of the first model.
[[nodiscard]] inline std::vector<Node> AlikeGpus(int count) {
  return std::vector<Node>(static_cast<size_t>(count));
}

// What a placement costs: GPUs on times gpu_value, and the move costs of the jobs that left their place.
struct Answer {
  bool feasible = false;
  double objective = 0;
  int gpus_on = 0, moves = 0;
  std::vector<Spot> spots;  // empty: no place was found for all
};

// A random one: jobs have come and gone under the online heuristic without moves, up to `most_jobs` are
// there. Sizes as in openb (many of 470 and 810 milli), two to four tenants, move costs of 1 to 5. On alike
// GPUs, as many as jobs; or on `unlike` ones: nodes of one to four GPUs, of three models (divided by MIG,
// half as large and divided, not to be divided), every fifth job asks for whole GPUs and some for models.
[[nodiscard]] Snapshot DrawSnapshot(uint64_t seed, Isolation isolation, int most_jobs, bool unlike = false);

// The newcomer and who runs, as a cluster that decisions can be made on: the one that comes last is no job
// yet.
[[nodiscard]] Snapshot SnapshotOf(const Cluster& cluster, const Job& newcomer, const MovePolicy& policy);

// How hard the heuristic tries where jobs are few.
[[nodiscard]] MovePolicy ThoroughMoves();

// The online heuristic's answer, of the snapshot's prices; `how` says how hard it tries. Infeasible: it found
// no place for the newcomer.
[[nodiscard]] Answer AnswerOnline(const Snapshot& snapshot, MovePolicy how = ThoroughMoves());

// What a placement costs, after checking that it keeps the rules; infeasible if it does not.
[[nodiscard]] Answer Judge(const Snapshot& snapshot, const std::vector<Spot>& spots);

}  // namespace spillway::scheduler
