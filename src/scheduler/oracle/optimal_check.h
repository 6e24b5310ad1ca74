// SPDX-License-Identifier: Apache-2.0
// How often the online heuristic finds what an exact solver finds, on random snapshots. Threads of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "scheduler/oracle/cbc.h"
#include "scheduler/oracle/snapshot.h"

namespace spillway::scheduler {

struct CheckOptions {
  std::vector<Isolation> levels = {Isolation::kNone, Isolation::kFraction, Isolation::kGpu};
  int snapshots = 500;  // of each level
  int most_jobs = 15;
  uint64_t first_seed = 1;
  unsigned threads = 1;
};

struct CheckedSnapshot {
  Isolation isolation = Isolation::kNone;
  uint64_t seed = 0;
  int jobs = 0, gpus_on = 0, moves = 0;  // of ours
  double ours = 0, optimum = 0;
  double ours_ms = 0, solver_ms = 0;
  bool Same() const;
  // The heuristic's answer keeps every rule; the solver's is no better than it should be.
  std::string fault;
};

// The exact solver: LP text to solution. May be called from several threads.
using ExactSolver = std::function<Result<CbcSolution>(const std::string& lp)>;

// In order of level and seed; those done so far if `stop` says so. Errors: the solver's first.
[[nodiscard]] Result<std::vector<CheckedSnapshot>> CheckOptimal(
    const CheckOptions& options, const ExactSolver& solver, const std::function<void(size_t, size_t)>& tell,
    const std::function<bool()>& stop);

}  // namespace spillway::scheduler
