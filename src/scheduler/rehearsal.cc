// SPDX-License-Identifier: Apache-2.0
#include "scheduler/rehearsal.h"

#include "scheduler/placer.h"

namespace spillway::scheduler {
namespace {

// Jobs per rehearsal, whatever they ask for: bounds the time where nearly all ask for CPU alone.
constexpr int kMaxJobs = 40'000;
constexpr uint64_t kSeed = 0x5eed;

// % of the cluster's milli that are allocated in the end.
double Rehearse(const std::vector<Job>& jobs, const std::vector<Node>& nodes, size_t models,
                const JobMix& mix, const FillValue& fill) {
  Cluster cluster(nodes, std::vector<GpuModel>(models));
  Placer placer(cluster, mix, {}, &fill);
  const int64_t all = int64_t{cluster.gpus()} * kWholeGpu;
  int64_t asked = 0;
  uint64_t state = kSeed;
  for (JobId id = 0; id < kMaxJobs && asked * 100 < all * kRehearsedPct; ++id) {
    const Job& job = jobs[spw_mix64(state += 0x9e3779b97f4a7c15ULL) % jobs.size()];
    asked += job.TotalMilli();
    if (const auto spot = placer.Decide(job)) cluster.Place(id, job, *spot);
  }
  return all > 0 ? 100.0 * static_cast<double>(cluster.allocated_milli()) / static_cast<double>(all) : 0;
}

}  // namespace

FillValue BestFillValue(const std::vector<Job>& expected, const JobMix& mix, const std::vector<Node>& nodes,
                        size_t models, const std::vector<double>& waiting) {
  FillValue best(mix.nearly_all(), nodes, models, waiting);
  if (expected.empty() || nodes.size() < 2) return best;
  double allocated = Rehearse(expected, nodes, models, mix, best) + kClearly;
  for (const PriceRule rule : {PriceRule::kFair, PriceRule::kFairerToGpus}) {
    FillValue other(mix.nearly_all(), nodes, models, waiting, rule);
    const double with_other = Rehearse(expected, nodes, models, mix, other);
    if (with_other <= allocated) continue;
    allocated = with_other;
    best = std::move(other);
  }
  return best;
}

}  // namespace spillway::scheduler
