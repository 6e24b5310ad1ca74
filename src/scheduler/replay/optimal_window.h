// SPDX-License-Identifier: Apache-2.0
// The online heuristic beside the optimum, at instants of a list of jobs. A snapshot is taken as a job comes:
// that job, and those that run, where policy `spillway` of gpu_hours_experiment.h has them, moved at once;
// heuristic and optimum both place it. Without a cluster of its own jobs of whole GPUs are in none of it, as
// each has its own anyway.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "report/document.h"
#include "scheduler/oracle/optimal_check.h"
#include "scheduler/replay/gpu_hours_experiment.h"

namespace spillway::scheduler {

struct WindowOptions {
  int64_t from_s = 0, to_s = 0;  // of the list's time, as --busy makes it; `to_s` is not in it
  int instants = 20;             // at most: of the jobs that come, so many at equal distances
  GpuHoursOptions hours;         // shares, cluster, prices
};

// Jobs of a snapshot, at most: of some more cbc finds the optimum in hours or never.
inline constexpr int kMaxWindowJobs = 60;

struct Instant {
  double at_s = 0;
  Snapshot snapshot;
};

// Errors: kBadInput where no job comes in the window, or more than kMaxWindowJobs are there at one of them.
[[nodiscard]] Result<std::vector<Instant>> InstantsIn(const JobList& jobs, const WindowOptions& options);

struct CheckedInstant {
  double at_s = 0;
  int whole_gpu_jobs = 0, gpus = 0;  // in the snapshot
  CheckedSnapshot checked;
};

// In order; those done so far if `stop` says so. Errors: the solver's first.
[[nodiscard]] Result<std::vector<CheckedInstant>> CheckInstants(const std::vector<Instant>& instants,
                                                                const WindowOptions& options,
                                                                const ExactSolver& solver, unsigned threads,
                                                                const TellDone& tell, const StopAsked& stop);

// A row for each instant and one for the window; docs/scheduler.md has their keys. An instant stands for an
// equal part of the window. What was not solved in time is in no sum, no median and not among those that are
// the same.
[[nodiscard]] report::Document WindowDocument(const std::string& list, const WindowOptions& options,
                                              const std::vector<CheckedInstant>& checked);
[[nodiscard]] std::string WindowText(const report::Document& document);

}  // namespace spillway::scheduler
