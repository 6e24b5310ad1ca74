// SPDX-License-Identifier: Apache-2.0
// GPU-hours where moves take time and GPUs differ in speed, on random lists: the sums beside those that
// follow from who was on which GPU from when to when, and what has to hold of that.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/replay/gpu_hours_experiment.h"

namespace spillway::scheduler {
namespace {

constexpr double kNear = 1e-6;

JobList RandomJobs(unsigned seed, bool whole) {
  std::mt19937 random(seed);
  JobList list;
  const int count = static_cast<int>(5 + random() % 40);
  const int64_t spread = 1 + random() % 5000;
  for (int i = 0; i < count; ++i) {
    TraceJob one;
    one.job.milli = static_cast<int>(50 + random() % 19 * 50);
    if (whole && random() % 6 == 0) {
      one.job.gpus = static_cast<int>(1 + random() % 3);
      one.job.milli = kWholeGpu;
    }
    if (random() % 4 == 0) one.job.models = 1 + random() % 3;
    one.arrives_s = static_cast<int64_t>(random() % static_cast<unsigned>(spread));
    one.leaves_s = one.arrives_s + 1 + static_cast<int64_t>(random() % 3000);
    list.jobs.push_back(one);
  }
  return list;
}

GpuHoursOptions RandomOptions(unsigned seed, bool cluster) {
  std::mt19937 random(seed + 1000);
  constexpr double kTimes[] = {0, 1, 7, 60, 600};
  GpuHoursOptions options;
  options.keep_stays = true;
  options.moves.move_seconds = kTimes[random() % std::size(kTimes)];
  if (!cluster) return options;
  constexpr double kSpeeds[] = {0.5, 1, 3};
  options.models = {{"a", kSpeeds[random() % 3], true, 0}, {"b", kSpeeds[random() % 3], true, 0}};
  options.nodes.resize(2 + random() % 8);
  for (Node& node : options.nodes) {
    node.gpus = static_cast<int>(1 + random() % 4);
    node.model = static_cast<int>(random() % 2);
  }
  return options;
}

bool IsOn(const GpuStay& stay, int node, int gpu) {
  return stay.spot.node == node &&
         (stay.spot.whole != 0 ? (stay.spot.whole >> gpu & 1) != 0 : stay.spot.gpu == gpu);
}

// The slow way: between any two moments at which something changes, every GPU is asked who is there.
class Occupation {
 public:
  Occupation(const JobList& list, const GpuHoursRun& run) : jobs_(list.jobs), run_(run) {
    std::set<double> moments;
    for (const GpuStay& stay : run.stays) {
      moments.insert({stay.from_s, stay.to_s});
      for (int gpu = 0; gpu < kMaxGpus; ++gpu)
        if (IsOn(stay, stay.spot.node, gpu)) gpus_.insert({stay.spot.node, gpu});
    }
    moments_.assign(moments.begin(), moments.end());
  }

  // An old place is one of a job that has a later one by then.
  bool IsOld(const GpuStay& stay, double at) const {
    return std::any_of(run_.stays.begin(), run_.stays.end(), [&](const GpuStay& other) {
      return &other > &stay && other.job == stay.job && other.from_s <= at;
    });
  }

  void Sum() {
    for (size_t k = 1; k < moments_.size(); ++k) {
      const double from = moments_[k - 1], seconds = moments_[k] - from;
      for (const auto& [node, gpu] : gpus_) {
        int milli = 0, there = 0, old = 0;
        for (const GpuStay& stay : run_.stays) {
          if (stay.from_s > from || stay.to_s <= from || !IsOn(stay, node, gpu)) continue;
          const Job& job = jobs_[stay.job].job;
          const int share = job.Fractional() ? job.milli : kWholeGpu;
          milli += share;
          ++there;
          if (!IsOld(stay, from)) continue;
          ++old;
          held_twice_s += seconds * share / kWholeGpu;
        }
        EXPECT_LE(milli, kWholeGpu) << "GPU " << node << "/" << gpu << " at " << from;
        on_s += there > 0 ? seconds : 0;
        for_old_alone_s += there > 0 && old == there ? seconds : 0;
      }
    }
  }

  double on_s = 0, for_old_alone_s = 0, held_twice_s = 0;

 private:
  const std::vector<TraceJob>& jobs_;
  const GpuHoursRun& run_;
  std::vector<double> moments_;
  std::set<std::pair<int, int>> gpus_;
};

std::vector<GpuStay> StaysOf(const GpuHoursRun& run, size_t job) {
  std::vector<GpuStay> stays;
  for (const GpuStay& stay : run.stays)
    if (stay.job == job && stay.to_s > stay.from_s) stays.push_back(stay);
  return stays;
}

// `speeds` of the pool's nodes. A job works on where it was until its move is over.
void CheckJob(const GpuHoursRun& run, const TraceJob& job, size_t id, const GpuHoursOptions& options,
              const std::vector<double>& speeds) {
  const std::vector<GpuStay> stays = StaysOf(run, id);
  if (stays.empty()) return;  // dropped, or beside the pool
  EXPECT_EQ(stays.front().from_s, static_cast<double>(job.arrives_s));
  const double move_s = options.moves.move_seconds, leaves = stays.back().to_s;
  double work = 0, working_from = stays.front().from_s;
  for (size_t k = 0; k < stays.size(); ++k) {
    const double until = k + 1 < stays.size() ? stays[k].to_s : leaves;
    work += (until - working_from) * speeds[static_cast<size_t>(stays[k].spot.node)];
    working_from = until;
    if (k + 1 == stays.size()) break;
    const double both = stays[k].to_s - stays[k + 1].from_s;
    EXPECT_NEAR(both, std::min(move_s, leaves - stays[k + 1].from_s), kNear) << "job " << id;
    EXPECT_FALSE(stays[k].spot == stays[k + 1].spot);
    if (k + 2 < stays.size()) {
      EXPECT_GE(stays[k + 2].from_s, stays[k].to_s) << "job " << id << " moved in the middle of a move";
    }
  }
  const double in_trace = options.nodes.empty() ? 1 : SpeedInTrace(job.job, options.models);
  EXPECT_NEAR(work, static_cast<double>(job.leaves_s - job.arrives_s) * in_trace, kNear) << "job " << id;
}

void CheckRun(const JobList& list, SharePolicy policy, const GpuHoursOptions& options) {
  const GpuHoursRun run = RunGpuHours(list, policy, options);
  Occupation occupation(list, run);
  occupation.Sum();
  double beside_s = 0;  // whole GPUs that are not in the pool
  for (const TraceJob& one : list.jobs)
    if (options.nodes.empty() && !one.job.Fractional())
      beside_s += static_cast<double>(one.leaves_s - one.arrives_s) * one.job.gpus;
  EXPECT_NEAR(run.gpu_hours, (occupation.on_s + beside_s) / 3600, kNear);
  EXPECT_NEAR(run.move_gpu_hours, occupation.for_old_alone_s / 3600, kNear);
  EXPECT_NEAR(run.held_twice_gpu_hours, occupation.held_twice_s / 3600, kNear);
  EXPECT_LE(run.moves, run.migrations);
  std::vector<double> speeds(1000, 1);
  if (!options.nodes.empty()) {
    speeds.clear();
    for (const Node& node : options.nodes)
      speeds.push_back(options.models[static_cast<size_t>(node.model)].speed);
    std::stable_sort(speeds.begin(), speeds.end(), std::greater<>());
  }
  int placed = 0;
  for (size_t id = 0; id < list.jobs.size(); ++id) {
    CheckJob(run, list.jobs[id], id, options, speeds);
    placed += StaysOf(run, id).empty() ? 0 : 1;
  }
  if (!options.nodes.empty()) {
    EXPECT_EQ(placed + run.dropped, static_cast<int>(list.jobs.size()));
  }
}

TEST(GpuHoursProperty, SumsAreThoseOfWhoWasWhere) {
  int64_t migrations = 0;
  for (unsigned seed = 0; seed < 400; ++seed)
    for (const bool cluster : {false, true}) {
      const JobList list = RandomJobs(seed, true);
      const GpuHoursOptions options = RandomOptions(seed, cluster);
      for (const SharePolicy policy :
           {SharePolicy::kSpillway, SharePolicy::kFirstFitWithMoves, SharePolicy::kBestFit}) {
        SCOPED_TRACE(testing::Message()
                     << "seed " << seed << (cluster ? ", cluster, " : ", ") << ToString(policy));
        CheckRun(list, policy, options);
        migrations += RunGpuHours(list, policy, options).migrations;
        if (::testing::Test::HasFailure()) return;
      }
    }
  EXPECT_GT(migrations, 500) << "or nothing was tested";
}

}  // namespace
}  // namespace spillway::scheduler
