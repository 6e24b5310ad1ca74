// SPDX-License-Identifier: Apache-2.0
// How often the online heuristic finds what an exact solver finds, on random snapshots or on those of a
// caller. Threads of its own.
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
  std::vector<bool> unlike = {false};  // on alike GPUs, on unlike ones
  int snapshots = 500;                 // of each level, and of each kind of GPUs
  int most_jobs = 15;
  uint64_t first_seed = 1;
  unsigned threads = 1;
};
[[nodiscard]] size_t CountSnapshots(const CheckOptions& options);

struct CheckedSnapshot {
  Isolation isolation = Isolation::kNone;
  bool unlike = false;
  uint64_t seed = 0;
  int jobs = 0;
  bool placed = false;  // by ours; if not, what follows is nothing
  double ours = 0;
  int gpus_on = 0, moves = 0;
  bool solved = false;     // in time; if not, nothing is known of the optimum
  bool can_place = false;  // there is an optimum
  double optimum = 0;
  int optimum_gpus_on = 0, optimum_moves = 0;
  double ours_ms = 0, solver_ms = 0;
  // Solved, and both are as good as each other, or find no place.
  [[nodiscard]] bool Same() const;
  // How much more ours costs, in %. 0 where that is not known.
  [[nodiscard]] double GapPct() const;
  // The heuristic's answer keeps every rule; the solver's is no better than it should be.
  std::string fault = {};
};

// Two answers to one snapshot, times left out.
[[nodiscard]] CheckedSnapshot Compare(const Snapshot& snapshot, const Answer& ours, const CbcSolution& exact);

// The exact solver: LP text to solution. May be called from several threads.
using ExactSolver = std::function<Result<CbcSolution>(const std::string& lp)>;
using TellDone = std::function<void(size_t done, size_t all)>;
using StopAsked = std::function<bool()>;

// Each of `count` snapshots, made by `snapshot` on any thread and answered by ours, `how` hard it tries, and
// by the solver. In order; those done so far, with what `index` they had, if `stop` says so. Errors: the
// solver's first.
struct CheckedAt {
  size_t index;
  CheckedSnapshot checked;
};
[[nodiscard]] Result<std::vector<CheckedAt>> CompareAll(size_t count,
                                                        const std::function<Snapshot(size_t)>& snapshot,
                                                        const MovePolicy& how, const ExactSolver& solver,
                                                        unsigned threads, const TellDone& tell,
                                                        const StopAsked& stop);

// In order of kind of GPUs, level and seed; those done so far if `stop` says so. Errors: the solver's first.
[[nodiscard]] Result<std::vector<CheckedSnapshot>> CheckOptimal(const CheckOptions& options,
                                                                const ExactSolver& solver,
                                                                const TellDone& tell, const StopAsked& stop);

}  // namespace spillway::scheduler
