// SPDX-License-Identifier: Apache-2.0
#include "scheduler/rehearsal.h"

#include "base/random.h"
#include "scheduler/placer.h"

namespace spillway::scheduler {
namespace {

// Jobs per rehearsal, whatever they ask for: bounds the time where nearly all ask for CPU alone.
constexpr int kMaxJobs = 40'000;
constexpr uint64_t kSeed = 0x5eed;

// % of the cluster's milli that are allocated in the end.
double Rehearse(const std::vector<Job>& jobs, const std::vector<Node>& nodes, size_t models,
                const JobMix& mix, const FillValue& fill, const std::stop_token& stop) {
  Cluster cluster(nodes, std::vector<GpuModel>(models));
  Placer placer(cluster, mix, {}, &fill);
  const int64_t all = int64_t{cluster.gpus()} * kWholeGpu;
  int64_t asked = 0;
  base::SplitMix64 random(kSeed);
  for (JobId id = 0; id < kMaxJobs && asked * 100 < all * kRehearsedPct && !stop.stop_requested(); ++id) {
    const Job& job = jobs[random.Below(jobs.size())];
    asked += job.TotalMilli();
    if (const auto spot = placer.Decide(job)) cluster.Place(id, job, *spot);
  }
  return all > 0 ? 100.0 * static_cast<double>(cluster.allocated_milli()) / static_cast<double>(all) : 0;
}

}  // namespace

FillValue BestFillValue(const std::vector<Job>& expected, const JobMix& mix, const std::vector<Node>& nodes,
                        size_t models, const std::vector<double>& waiting, const std::stop_token& stop) {
  FillValue best(mix.nearly_all(), nodes, models, waiting, PriceRule::kInProportion, stop);
  if (expected.empty() || nodes.size() < 2) return best;
  double allocated = Rehearse(expected, nodes, models, mix, best, stop) + kClearly;
  for (const PriceRule rule : {PriceRule::kFair, PriceRule::kFairerToGpus}) {
    FillValue other(mix.nearly_all(), nodes, models, waiting, rule, stop);
    const double with_other = Rehearse(expected, nodes, models, mix, other, stop);
    if (with_other <= allocated) continue;
    allocated = with_other;
    best = std::move(other);
  }
  return best;
}

}  // namespace spillway::scheduler
