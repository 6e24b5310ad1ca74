// SPDX-License-Identifier: Apache-2.0
#include "scheduler/replay/gpu_hours_experiment.h"

#include <algorithm>
#include <optional>

#include "scheduler/replay/gpu_hours_replay.h"

namespace spillway::scheduler {
namespace {

// As they came, or squeezed; those that last no time are left out.
std::vector<TraceJob> Squeezed(const JobList& list, const GpuHoursOptions& options) {
  std::vector<TraceJob> jobs;
  int64_t last = 0;
  for (TraceJob one : list.jobs) {
    if (one.job.gpus == 0) continue;
    if (options.busy > 1) {
      const int64_t lasts = one.leaves_s - one.arrives_s;
      one.arrives_s = std::max<int64_t>(0, (one.arrives_s - options.busy_from) / options.busy);
      one.leaves_s = one.arrives_s + lasts;
    }
    last = std::max(last, one.arrives_s);
    jobs.push_back(one);
  }
  if (options.busy > 1)
    for (TraceJob& one : jobs) one.leaves_s = std::min(one.leaves_s, last);
  std::erase_if(jobs, [](const TraceJob& one) { return one.leaves_s <= one.arrives_s; });
  return jobs;
}

}  // namespace

const char* ToString(SharePolicy policy) {
  constexpr const char* kNames[] = {
      "no-sharing", "least-loaded",         "static-quarters",        "first-fit",
      "best-fit",   "first-fit-with-moves", "spillway-without-moves", "spillway"};
  return kNames[static_cast<int>(policy)];
}

SharePolicy WithoutMoves(SharePolicy policy) {
  if (policy == SharePolicy::kFirstFitWithMoves) return SharePolicy::kFirstFit;
  return policy == SharePolicy::kSpillway ? SharePolicy::kSpillwayWithoutMoves : policy;
}

bool AnyLasts(const JobList& jobs, const GpuHoursOptions& options) {
  return !Squeezed(jobs, options).empty();
}

const char* ToString(ShareRule rule) {
  constexpr const char* kNames[] = {"exact", "compute", "memory"};
  return kNames[static_cast<int>(rule)];
}

std::optional<ShareRule> ShareRuleByName(std::string_view name) {
  for (const ShareRule rule : {ShareRule::kExact, ShareRule::kCompute, ShareRule::kMemory})
    if (name == ToString(rule)) return rule;
  return std::nullopt;
}

double SpeedInTrace(const Job& job, const std::vector<GpuModel>& models) {
  std::optional<double> speed;
  for (size_t i = 0; i < models.size() && job.models != 0; ++i) {
    if (!job.Accepts(static_cast<int>(i))) continue;
    if (speed && *speed != models[i].speed) return 1;
    speed = models[i].speed;
  }
  return speed && (job.models & kAbsentModel) == 0 ? *speed : 1;
}

GpuHoursRun RunGpuHours(const JobList& list, SharePolicy policy, const GpuHoursOptions& options,
                        const ArrivalLook& look) {
  return GpuHoursReplay(Squeezed(list, options), policy, options).Run(look);
}

}  // namespace spillway::scheduler
