// SPDX-License-Identifier: Apache-2.0
// The GPU-hours experiment of Conspirator (ATC 2024), a row for each way to share a GPU and each policy: jobs
// come and go as they did; for how long is how many GPUs on? CPU and memory are left aside. So are models and
// nodes, unless the options name a cluster: without one GPUs are alike, and a job of whole GPUs has its own
// under any policy; with one a job of whole GPUs needs as many idle ones of a node, and jobs take as long as
// the GPU that they are on lets them. Pure; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "scheduler/consolidation.h"
#include "scheduler/replay/openb_lists.h"

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
  MovePolicy moves;               // its move_seconds: 0, at once; kMoveSeconds is what the command line has
  int cluster_gpus = 6212;        // of `least-loaded`, without a cluster
  // The cluster's; empty: as many alike GPUs as are wanted, of speed 1. Its fastest GPUs go first.
  std::vector<Node> nodes;
  std::vector<GpuModel> models;  // what the jobs' sets of models and the nodes' models mean
  bool keep_stays = false;       // for tests: GpuHoursRun::stays
};

// How long a move takes unless the user says otherwise: an executor must be started and load its model before
// it can take over, which is seconds on a real GPU (the controller's emulated slices take some tenths).
inline constexpr double kMoveSeconds = 5;

// The speed of the GPU on which the job ran in the trace: of those that it names, if all have the same. Else
// nothing is known of it, and it is 1.
[[nodiscard]] double SpeedInTrace(const Job& job, const std::vector<GpuModel>& models);

// A job was on that GPU of the pool so long; a job that moves is on two meanwhile.
struct GpuStay {
  size_t job;  // index among the list's jobs that ask for GPUs and last
  Spot spot;   // of whole GPUs `whole` says which
  double from_s, to_s;
};

struct GpuHoursRun {
  SharePolicy policy = SharePolicy::kSpillway;
  ShareRule rule = ShareRule::kExact;
  double gpu_hours = 0;
  int64_t migrations = 0;
  int64_t moves = 0;                // of them those that were over before the job was
  double move_gpu_hours = 0;        // of gpu_hours: GPUs on for nothing but the old places of jobs that moved
  double held_twice_gpu_hours = 0;  // shares of GPUs that such old places took
  int dropped = 0;                  // jobs that found no room in the cluster
  int peak_gpus = 0;
  std::vector<GpuStay> stays;  // as they began; not of jobs that have GPUs beside the pool
  std::vector<double> curve;   // GPUs on, mean of each of kCurveParts equal parts of the time
};
inline constexpr int kCurveParts = 100;

// Is there a job with a GPU that lasts, once arrivals are as close together as the options say?
[[nodiscard]] bool AnyLasts(const JobList& jobs, const GpuHoursOptions& options);

// A job that shares a GPU comes, and is nowhere yet; what is there now.
using ArrivalLook = std::function<void(double now_s, const Job& job, const Cluster& pool)>;

[[nodiscard]] GpuHoursRun RunGpuHours(const JobList& jobs, SharePolicy policy, const GpuHoursOptions& options,
                                      const ArrivalLook& look = {});

}  // namespace spillway::scheduler
