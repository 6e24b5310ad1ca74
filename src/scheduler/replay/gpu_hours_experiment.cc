// SPDX-License-Identifier: Apache-2.0
#include "scheduler/replay/gpu_hours_experiment.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace spillway::scheduler {
namespace {

struct Event {
  int64_t at;
  bool arrives;  // at one time, those that leave go first
  JobId id;
  bool operator<(const Event& other) const {
    return std::tie(at, arrives, id) < std::tie(other.at, other.arrives, other.id);
  }
};

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

std::vector<Event> EventsOf(const std::vector<TraceJob>& jobs) {
  std::vector<Event> events;
  for (JobId id = 0; id < jobs.size(); ++id) {
    events.push_back({jobs[id].arrives_s, true, id});
    events.push_back({jobs[id].leaves_s, false, id});
  }
  std::sort(events.begin(), events.end());
  return events;
}

// What a job takes of a GPU under the policy.
Job Shared(Job job, SharePolicy policy) {
  job.cpu_milli = job.memory_mib = 0;
  job.models = 0;
  if (policy == SharePolicy::kNoSharing) job.milli = kWholeGpu;
  constexpr int kQuarter = kWholeGpu / 4;
  if (policy == SharePolicy::kStaticQuarters) job.milli = (job.milli + kQuarter - 1) / kQuarter * kQuarter;
  return job;
}

// GPUs for the jobs that share, one by one.
Cluster MakePool(int gpus, SharePolicy policy, ShareRule rule) {
  Rules rules;
  if (rule != ShareRule::kExact && policy != SharePolicy::kStaticQuarters)
    rules.isolation = Isolation::kFraction;
  rules.slice_rule = rule == ShareRule::kMemory ? SliceRule::kMemory : SliceRule::kCompute;
  return Cluster(std::vector<Node>(static_cast<size_t>(gpus)), {{"GPU", 1, true, 0}}, rules);
}

// The GPU for a job that comes; the first that is off where none that is on has room.
Spot Choose(const Cluster& pool, const Job& job, SharePolicy policy) {
  int best = -1, first_off = -1;
  for (int n = 0; n < pool.gpus(); ++n) {
    const Node& node = pool.nodes()[n];
    const bool off = node.jobs[0] == 0;
    if (off && first_off < 0) first_off = n;
    if ((off && policy != SharePolicy::kLeastLoaded) || !pool.FitsGpu(job, n, 0)) continue;
    if (policy == SharePolicy::kFirstFit || policy == SharePolicy::kFirstFitWithMoves ||
        policy == SharePolicy::kStaticQuarters)
      return {n, 0, -1};
    const int free = best < 0 ? 0 : pool.nodes()[best].free[0];
    if (best < 0 || (policy == SharePolicy::kLeastLoaded ? node.free[0] > free : node.free[0] < free))
      best = n;
  }
  return {best >= 0 ? best : first_off, 0, -1};
}

// How many GPUs were on, over time.
class Meter {
 public:
  Meter(int64_t from, int64_t to)
      : from_(from), part_(std::max<double>(static_cast<double>(to - from), 1) / kCurveParts), last_(from) {
    parts_.resize(kCurveParts);
  }
  void Advance(int64_t now, int on) {
    gpu_seconds_ += static_cast<double>(now - last_) * on;
    for (double at = static_cast<double>(last_ - from_), end = static_cast<double>(now - from_); at < end;) {
      const auto part = std::min<size_t>(static_cast<size_t>(at / part_), kCurveParts - 1);
      const double next =
          part + 1 == kCurveParts ? end : std::min(end, static_cast<double>(part + 1) * part_);
      if (next <= at) break;
      parts_[part] += (next - at) * on / part_;
      at = next;
    }
    last_ = now;
  }
  double gpu_seconds() const { return gpu_seconds_; }
  const std::vector<double>& parts() const { return parts_; }

 private:
  int64_t from_;
  double part_;
  int64_t last_;
  double gpu_seconds_ = 0;
  std::vector<double> parts_;
};

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

GpuHoursRun RunGpuHours(const JobList& list, SharePolicy policy, const GpuHoursOptions& options) {
  const std::vector<TraceJob> jobs = Squeezed(list, options);
  const std::vector<Event> events = EventsOf(jobs);
  GpuHoursRun run;
  run.policy = policy;
  run.rule = options.rule;
  if (events.empty()) return run;

  // As many GPUs as jobs that share are ever there at once: enough for any policy.
  int sharing = 0, most = 0;
  for (const Event& event : events) {
    if (!Shared(jobs[event.id].job, policy).Fractional()) continue;
    sharing += event.arrives ? 1 : -1;
    most = std::max(most, sharing);
  }
  Cluster pool = MakePool(policy == SharePolicy::kLeastLoaded ? std::max(options.cluster_gpus, most) : most,
                          policy, options.rule);
  MovePolicy moves = options.moves;
  if (policy == SharePolicy::kSpillwayWithoutMoves) moves.budget = 0;
  Consolidator consolidator(pool, moves);
  const bool ours = policy == SharePolicy::kSpillway || policy == SharePolicy::kSpillwayWithoutMoves;
  const bool may_move = ours || policy == SharePolicy::kFirstFitWithMoves;
  Meter meter(events.front().at, events.back().at);
  int whole = 0;  // GPUs of jobs that have all of one
  for (const Event& event : events) {
    meter.Advance(event.at, whole + pool.gpus_on());
    const Job job = Shared(jobs[event.id].job, policy);
    std::vector<Move> moved;
    if (!job.Fractional()) {
      whole += event.arrives ? job.gpus : -job.gpus;
    } else if (!event.arrives) {
      pool.Remove(event.id);
      if (may_move) consolidator.Consolidate();
    } else if (ours) {
      consolidator.Arrive(event.id, job, moved);
    } else {
      pool.Place(event.id, job, Choose(pool, job, policy));
      if (may_move) consolidator.Consolidate();
    }
    run.peak_gpus = std::max(run.peak_gpus, whole + pool.gpus_on());
  }
  run.gpu_hours = meter.gpu_seconds() / 3600;
  run.migrations = consolidator.moves();
  run.curve = meter.parts();
  return run;
}

}  // namespace spillway::scheduler
