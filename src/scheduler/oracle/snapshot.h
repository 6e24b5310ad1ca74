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
  int gpus = 0;  // all alike, divisible by MIG
  Rules rules;
  double gpu_value = 10, move_price = 1;  // eps1, eps2
  std::vector<Job> jobs;                  // parts of a GPU; the last one is new
  std::vector<Spot> homes;                // where they run, node = GPU; the new one's is nowhere
};

// What a placement costs: GPUs on times gpu_value, and the move costs of the jobs that left their place.
struct Answer {
  bool feasible = false;
  double objective = 0;
  int gpus_on = 0, moves = 0;
  std::vector<Spot> spots;
};

// A random one: jobs have come and gone under the online heuristic without moves, up to `most_jobs` are
// there. Sizes as in openb (many of 470 and 810 milli), two to four tenants, move costs of 1 to 5.
[[nodiscard]] Snapshot DrawSnapshot(uint64_t seed, Isolation isolation, int most_jobs);

// The online heuristic's answer.
[[nodiscard]] Answer AnswerOnline(const Snapshot& snapshot);

// What a placement costs, after checking that it keeps the rules; infeasible if it does not.
[[nodiscard]] Answer Judge(const Snapshot& snapshot, const std::vector<Spot>& spots);

}  // namespace spillway::scheduler
