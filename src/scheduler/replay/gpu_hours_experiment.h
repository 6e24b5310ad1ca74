// SPDX-License-Identifier: Apache-2.0
// The GPU-hours experiment of Conspirator (ATC 2024): jobs come and go as they did; for how long is how many
// GPUs on? CPU, memory, models and nodes are left aside; a job of whole GPUs has its own under any policy.
// Pure; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "scheduler/consolidation.h"
#include "scheduler/replay/trace_reader.h"

namespace spillway::scheduler {

// How GPUs are shared.
//   no-sharing       every job has a GPU to itself
//   least-loaded     the GPU of the cluster with most left, on or off ("spread")
//   static-quarters  every GPU is four quarters; a job has as many as it needs; first fit
//   first-fit        the first GPU that has room
//   best-fit         the fullest GPU that has room
//   first-fit-with-moves   first-fit, and after each arrival and departure the moves of `spillway`
//   spillway-without-moves what is left of `spillway` if nothing may be moved: where a new job goes
//   spillway         ours: as tight as fits, and jobs are moved where that saves a GPU
enum class SharePolicy : uint8_t {
  kNoSharing,
  kLeastLoaded,
  kStaticQuarters,
  kFirstFit,
  kBestFit,
  kFirstFitWithMoves,
  kSpillwayWithoutMoves,
  kSpillway
};
[[nodiscard]] const char* ToString(SharePolicy policy);
inline constexpr SharePolicy kSharePolicies[] = {SharePolicy::kNoSharing,
                                                 SharePolicy::kLeastLoaded,
                                                 SharePolicy::kStaticQuarters,
                                                 SharePolicy::kFirstFit,
                                                 SharePolicy::kBestFit,
                                                 SharePolicy::kFirstFitWithMoves,
                                                 SharePolicy::kSpillwayWithoutMoves,
                                                 SharePolicy::kSpillway};
// The same policy but for its moves; itself where it makes none.
[[nodiscard]] SharePolicy WithoutMoves(SharePolicy policy);

// What a job gets of a GPU: exactly its milli (isolation `none`), or a slice of its own by the compute it
// asks for in sevenths, rounded up, or by the memory in eighths (isolation `fraction`).
enum class ShareRule : uint8_t { kExact, kCompute, kMemory };
[[nodiscard]] const char* ToString(ShareRule rule);
[[nodiscard]] std::optional<ShareRule> ShareRuleByName(std::string_view name);

struct GpuHoursOptions {
  ShareRule rule = ShareRule::kExact;
  // Jobs begin K times as close together: start = max(0, floor((creation - busy_from) / K)), durations kept,
  // all ended when the last job comes. 1: as they came.
  int busy = 1;
  int64_t busy_from = 9'600'000;  // s; of openb the time from which on jobs come all the while
  MovePolicy moves;
  int cluster_gpus = 6212;  // of `least-loaded`
};

struct GpuHoursRun {
  SharePolicy policy = SharePolicy::kSpillway;
  ShareRule rule = ShareRule::kExact;
  double gpu_hours = 0;
  int64_t migrations = 0;
  int peak_gpus = 0;
  std::vector<double> curve;  // GPUs on, mean of each of kCurveParts equal parts of the time
};
inline constexpr int kCurveParts = 100;

// Is there a job with a GPU that lasts, once arrivals are as close together as the options say?
[[nodiscard]] bool AnyLasts(const JobList& jobs, const GpuHoursOptions& options);

[[nodiscard]] GpuHoursRun RunGpuHours(const JobList& jobs, SharePolicy policy,
                                      const GpuHoursOptions& options);

}  // namespace spillway::scheduler
