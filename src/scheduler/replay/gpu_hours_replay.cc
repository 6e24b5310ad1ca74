// SPDX-License-Identifier: Apache-2.0
#include "scheduler/replay/gpu_hours_replay.h"

#include <algorithm>
#include <utility>

namespace spillway::scheduler {
namespace {

// What a job takes of a GPU under the policy.
Job Shared(Job job, SharePolicy policy, bool own_cluster) {
  job.cpu_milli = job.memory_mib = 0;
  if (!own_cluster) job.models = 0;
  if (policy == SharePolicy::kNoSharing) job.milli = kWholeGpu;
  constexpr int kQuarter = kWholeGpu / 4;
  if (policy == SharePolicy::kStaticQuarters) job.milli = (job.milli + kQuarter - 1) / kQuarter * kQuarter;
  return job;
}

std::vector<TraceJob> AllShared(std::vector<TraceJob> jobs, SharePolicy policy, bool own_cluster) {
  for (TraceJob& one : jobs) one.job = Shared(one.job, policy, own_cluster);
  return jobs;
}

Rules RulesOf(SharePolicy policy, ShareRule rule) {
  Rules rules;
  if (rule != ShareRule::kExact && policy != SharePolicy::kStaticQuarters)
    rules.isolation = Isolation::kFraction;
  rules.slice_rule = rule == ShareRule::kMemory ? SliceRule::kMemory : SliceRule::kCompute;
  return rules;
}

// As many jobs that share as are ever there at once: with a GPU each there is room under any policy.
int MostSharing(const std::vector<TraceJob>& jobs) {
  std::vector<std::pair<int64_t, int>> changes;
  for (const TraceJob& one : jobs) {
    if (!one.job.Fractional()) continue;
    changes.emplace_back(one.arrives_s, 1);
    changes.emplace_back(one.leaves_s, -1);
  }
  std::sort(changes.begin(), changes.end());  // at one time, those that leave go first
  int there = 0, most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, there += change);
  return most;
}

// The options' cluster, fastest GPUs first; else GPUs that are alike, one by one. A job that moves has two
// places, so that twice as many as jobs may be wanted then.
Cluster MakePool(const std::vector<TraceJob>& jobs, SharePolicy policy, const GpuHoursOptions& options) {
  const Rules rules = RulesOf(policy, options.rule);
  if (options.nodes.empty()) {
    int gpus = MostSharing(jobs) * (options.moves.move_seconds > 0 ? 2 : 1);
    if (policy == SharePolicy::kLeastLoaded) gpus = std::max(options.cluster_gpus, gpus);
    return Cluster(std::vector<Node>(static_cast<size_t>(gpus)), {{"GPU", 1, true, 0}}, rules);
  }
  std::vector<Node> nodes = options.nodes;
  for (Node& node : nodes) node.cpu_milli = node.memory_mib = kUnlimited;
  std::stable_sort(nodes.begin(), nodes.end(), [&](const Node& a, const Node& b) {
    return options.models[a.model].speed > options.models[b.model].speed;
  });
  return Cluster(std::move(nodes), options.models, rules);
}

MovePolicy MovesOf(SharePolicy policy, MovePolicy moves) {
  if (policy == SharePolicy::kSpillwayWithoutMoves) moves.budget = 0;
  return moves;
}

bool TakesTheFirst(SharePolicy policy) {
  return policy == SharePolicy::kFirstFit || policy == SharePolicy::kFirstFitWithMoves ||
         policy == SharePolicy::kStaticQuarters || policy == SharePolicy::kNoSharing;
}

}  // namespace

GpuHoursReplay::GpuHoursReplay(std::vector<TraceJob> jobs, SharePolicy policy, const GpuHoursOptions& options)
    : jobs_(AllShared(std::move(jobs), policy, !options.nodes.empty())),
      policy_(policy),
      options_(options),
      own_cluster_(!options.nodes.empty()),
      is_ours_(policy == SharePolicy::kSpillway || policy == SharePolicy::kSpillwayWithoutMoves),
      may_move_(is_ours_ || policy == SharePolicy::kFirstFitWithMoves),
      pool_(MakePool(jobs_, policy, options)),
      consolidator_(pool_, MovesOf(policy, options.moves)),
      running_(jobs_.size()) {
  const auto& models = pool_.models();
  const bool unlike = std::any_of(models.begin(), models.end(),
                                  [&](const GpuModel& model) { return model.speed != models.front().speed; });
  // Nobody says how long a job will stay. What has been there for long stays long: durations are so spread
  // that as long again is a fair guess.
  if (options.moves.move_seconds > 0 || unlike)
    consolidator_.ForeseeBy(
        [this](JobId id) { return id < running_.size() ? last_ - running_[id].began : 0; });
  run_.policy = policy;
  run_.rule = options.rule;
}

GpuHoursRun GpuHoursReplay::Run(const ArrivalLook& look) {
  if (jobs_.empty()) return run_;
  for (JobId id = 0; id < jobs_.size(); ++id)
    events_.insert({static_cast<double>(jobs_[id].arrives_s), Kind::kComes, id});
  const double first = last_ = events_.begin()->at;
  while (!events_.empty()) {
    const Event event = *events_.begin();
    events_.erase(events_.begin());
    Advance(event.at);
    if (event.kind == Kind::kComes && look && InPool(jobs_[event.id].job))
      look(event.at, jobs_[event.id].job, pool_);
    if (event.kind == Kind::kComes) Come(event.id, event.at);
    if (event.kind == Kind::kLeaves) Leave(event.id, event.at);
    if (event.kind == Kind::kMoveEnds) EndMove(event.id, event.at);
    if (events_.empty() || events_.begin()->at > event.at || events_.begin()->kind == Kind::kComes)
      ConsolidateIfDue(event.at);
    run_.peak_gpus = std::max(run_.peak_gpus, whole_ + pool_.gpus_on());
  }
  run_.gpu_hours /= 3600;
  run_.move_gpu_hours /= 3600;
  run_.held_twice_gpu_hours /= 3600;
  run_.migrations = consolidator_.moves();
  MakeCurve(first);
  return run_;
}

// The mean of each of kCurveParts equal parts of the time.
void GpuHoursReplay::MakeCurve(double first) {
  run_.curve.assign(kCurveParts, 0);
  const double part_s = std::max(last_ - first, 1.0) / kCurveParts;
  for (const Span& span : spans_)
    for (double at = span.from - first, end = span.to - first; at < end;) {
      const auto part = std::min<size_t>(static_cast<size_t>(at / part_s), kCurveParts - 1);
      const double next =
          part + 1 == kCurveParts ? end : std::min(end, static_cast<double>(part + 1) * part_s);
      if (next <= at) break;
      run_.curve[part] += (next - at) * span.on / part_s;
      at = next;
    }
}

void GpuHoursReplay::Advance(double now) {
  const int on = whole_ + pool_.gpus_on();
  run_.gpu_hours += (now - last_) * on;  // seconds, until the end
  if (!moving_.empty()) run_.move_gpu_hours += (now - last_) * GpusGoingOff();
  if (now > last_) spans_.push_back({last_, now, on});
  last_ = now;
}

int GpuHoursReplay::GpusGoingOff() const {
  int gpus = 0;
  for (const auto& [id, move] : moving_) {
    const Spot& old = pool_.SpotOf(OldPlaceOf(id));
    // Of several old places on one GPU the first counts.
    gpus += consolidator_.GoingOff(old.node, old.gpu) &&
                    pool_.SharersOf(old.node, old.gpu).front() == OldPlaceOf(id)
                ? 1
                : 0;
  }
  return gpus;
}

void GpuHoursReplay::Come(JobId id, double now) {
  const Job& job = jobs_[id].job;
  running_[id].began = now;
  std::vector<Move> moves;
  if (!InPool(job)) {
    whole_ += job.gpus;
  } else if (job.Fractional() && is_ours_) {
    if (!consolidator_.Arrive(id, job, moves)) {
      ++run_.dropped;
      return;
    }
  } else {
    const Spot spot = job.Fractional() ? Choose(job) : Spot{ChooseNode(job), 0, -1};
    if (spot.node < 0) {
      ++run_.dropped;
      return;
    }
    pool_.Place(id, job, spot);
  }
  BeginWork(id, now);
  Take(moves, now);
  if (job.Fractional() && !is_ours_) ConsolidateSoon(now);
}

void GpuHoursReplay::BeginWork(JobId id, double now) {
  Running& one = running_[id];
  one.since = now;
  const double in_trace = own_cluster_ ? SpeedInTrace(jobs_[id].job, options_.models) : 1;
  one.work = static_cast<double>(jobs_[id].leaves_s - jobs_[id].arrives_s) * in_trace;
  one.speed = SpeedOf(id);
  one.ends = now + one.work / one.speed;
  events_.insert({one.ends, Kind::kLeaves, id});
  if (InPool(jobs_[id].job)) one.stay = OpenStay(id, now);
}

size_t GpuHoursReplay::OpenStay(JobId id, double now) {
  if (!options_.keep_stays) return 0;
  Spot spot = pool_.SpotOf(id);
  spot.whole = pool_.WholeGpusOf(id);
  run_.stays.push_back({id, spot, now, now});
  return run_.stays.size() - 1;
}

void GpuHoursReplay::CloseStay(size_t stay, double now) {
  if (options_.keep_stays) run_.stays[stay].to_s = now;
}

double GpuHoursReplay::SpeedOf(JobId id) const {
  if (!InPool(jobs_[id].job)) return 1;
  return pool_.models()[pool_.nodes()[pool_.SpotOf(id).node].model].speed;
}

void GpuHoursReplay::WorkAt(JobId id, double speed, double now) {
  Running& one = running_[id];
  if (speed == one.speed) return;
  one.work = std::max(0.0, one.work - (now - one.since) * one.speed);
  one.since = now;
  one.speed = speed;
  events_.erase({one.ends, Kind::kLeaves, id});
  one.ends = now + one.work / speed;
  events_.insert({one.ends, Kind::kLeaves, id});
}

void GpuHoursReplay::Leave(JobId id, double now) {
  const Job& job = jobs_[id].job;
  if (!InPool(job)) {
    whole_ -= job.gpus;
    return;
  }
  CutMove(id, now);
  CloseStay(running_[id].stay, now);
  pool_.Remove(id);
  if (job.Fractional()) ConsolidateSoon(now);
}

// Moves that were decided on: at once, or with both places taken from now on.
void GpuHoursReplay::Take(const std::vector<Move>& moves, double now) {
  const double seconds = options_.moves.move_seconds;
  for (const Move& move : moves) {
    const size_t old_stay = running_[move.job].stay;
    running_[move.job].stay = OpenStay(move.job, now);
    if (seconds <= 0) {
      CloseStay(old_stay, now);
      WorkAt(move.job, SpeedOf(move.job), now);
      ++run_.moves;
      continue;
    }
    const JobId old = OldPlaceOf(move.job);
    pool_.Place(old, jobs_[move.job].job, move.from);
    consolidator_.Hold(old, true);
    const double share =
        pool_.ShareOn(jobs_[move.job].job, pool_.nodes()[move.from.node]) / static_cast<double>(kWholeGpu);
    moving_[move.job] = {now, now + seconds, share, old_stay};
    events_.insert({now + seconds, Kind::kMoveEnds, move.job});
  }
}

void GpuHoursReplay::EndMove(JobId id, double now) {
  CutMove(id, now);
  ++run_.moves;
  WorkAt(id, SpeedOf(id), now);
  ConsolidateSoon(now);
}

// The old place is given back; the job is what it was.
void GpuHoursReplay::CutMove(JobId id, double now) {
  const auto move = moving_.find(id);
  if (move == moving_.end()) return;
  events_.erase({move->second.ends, Kind::kMoveEnds, id});
  run_.held_twice_gpu_hours += (now - move->second.began) * move->second.share;  // seconds, until the end
  CloseStay(move->second.old_stay, now);
  pool_.Remove(OldPlaceOf(id));
  consolidator_.Release(OldPlaceOf(id));
  consolidator_.Release(id);
  moving_.erase(move);
}

void GpuHoursReplay::ConsolidateSoon(double now) {
  if (!may_move_) return;
  is_due_ = true;
  if (options_.moves.move_seconds <= 0) ConsolidateIfDue(now);
}

void GpuHoursReplay::ConsolidateIfDue(double now) {
  if (!is_due_) return;
  is_due_ = false;
  Take(consolidator_.Consolidate(), now);
}

// The GPU for a job that shares one; the first that is off, or going off, where none that is on has room.
Spot GpuHoursReplay::Choose(const Job& job) const {
  Spot best, off;
  const auto& nodes = pool_.nodes();
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    const Node& node = nodes[n];
    if (!pool_.FitsHost(job, node)) continue;
    for (int gpu = 0; gpu < node.gpus; ++gpu) {
      const bool is_off = node.jobs[gpu] == 0 || consolidator_.GoingOff(n, gpu);
      if (is_off && off.node >= 0 && policy_ != SharePolicy::kLeastLoaded) continue;
      if (!pool_.FitsGpu(job, n, gpu)) continue;
      if (is_off && off.node < 0) off = {n, gpu, -1};
      if (is_off && policy_ != SharePolicy::kLeastLoaded) continue;
      if (TakesTheFirst(policy_)) return {n, gpu, -1};
      const int free = best.node < 0 ? 0 : nodes[best.node].free[best.gpu];
      if (best.node < 0 ||
          (policy_ == SharePolicy::kLeastLoaded ? node.free[gpu] > free : node.free[gpu] < free))
        best = {n, gpu, -1};
    }
  }
  return best.node >= 0 ? best : off;
}

// The node for a job of whole GPUs, or -1. They are switched on for it, so the fastest go first under any
// policy.
int GpuHoursReplay::ChooseNode(const Job& job) const {
  int best = -1, best_idle = 0;
  const auto& nodes = pool_.nodes();
  const auto speed = [&](int n) { return pool_.models()[nodes[n].model].speed; };
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    if (best >= 0 && speed(n) < speed(best)) break;  // they stand in that order
    if (!pool_.FitsNode(job, n)) continue;
    const int idle = nodes[n].IdleGpus();
    if (best < 0 || (policy_ == SharePolicy::kLeastLoaded ? idle > best_idle : idle < best_idle))
      best = n, best_idle = idle;
    if (TakesTheFirst(policy_)) break;
  }
  return best;
}

}  // namespace spillway::scheduler
