// SPDX-License-Identifier: Apache-2.0
#include "scheduler/rehearsal.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "scheduler/placer.h"

namespace spillway::scheduler {
namespace {

// Jobs per order, whatever they ask for: bounds the time where nearly all ask for CPU alone.
constexpr size_t kMaxJobs = 40'000;
// Orders of arrival: as many as have so many GPUs together, as small clusters differ more from one to the
// next.
constexpr int kGpusRehearsed = 10'000;
constexpr size_t kMinOrders = 3, kMaxOrders = 16;
constexpr uint64_t kSeed = 0x5eed, kCheckSeed = 0xc4ec;

// A trial multiplies prices by e^step: from one within which placements hardly change to one that turns most
// of them. Prices of jobs without GPUs, which are little, by more.
constexpr double kLeastStep = 0.01, kMostStep = 0.16, kCpuOnlySteps = 5;
// Points that a trial must gain. More would also refuse gains: most are a few hundredths.
constexpr double kTrialGain = 0.003;

// Points, of the orders together, by which a trial may be behind before it is given up.
constexpr double kHopeless = 0.03;

// Of nodes, in all trials together: a minute's. openb's six lists need less. A decision costs at least as
// much as to rate some nodes.
constexpr double kMaxRatings = 2e8, kRatingsPerJob = 10;

double Draw(base::SplitMix64& random) { return static_cast<double>(random.Bits() >> 11) * 0x1p-53; }

bool Asked(const std::function<bool()>& stop) { return stop && stop(); }

int MilliOf(const JobKind& kind) { return kind.gpus == 1 ? kind.milli : kind.gpus * kWholeGpu; }

}  // namespace

Rehearsal::Rehearsal(const std::vector<Job>& expected, const JobMix& mix, const std::vector<Node>& nodes,
                     size_t models, uint64_t seed)
    : mix_(mix), models_(models) {
  int64_t gpus = 0;
  for (const Node& node : nodes) gpus += node.gpus;
  const size_t orders = std::clamp<size_t>(static_cast<size_t>(kGpusRehearsed / std::max<int64_t>(gpus, 1)),
                                           kMinOrders, kMaxOrders);
  base::SplitMix64 random(seed);
  for (size_t order = 0; order < orders; ++order) {
    nodes_.push_back(nodes);
    for (size_t i = order > 0 ? nodes.size() : 0; i > 1; --i)
      std::swap(nodes_.back()[i - 1], nodes_.back()[random.Below(i)]);
    std::vector<Job>& jobs = jobs_.emplace_back();
    for (int64_t asked = 0;
         !expected.empty() && jobs.size() < kMaxJobs && asked * 100 < gpus * kWholeGpu * kRehearsedPct;
         asked += jobs.back().TotalMilli())
      jobs.push_back(expected[random.Below(expected.size())]);
    std::set<std::tuple<int, int, int, int, ModelSet>> shapes;
    for (const Job& job : jobs)
      shapes.emplace(job.cpu_milli, job.memory_mib, job.gpus, job.milli, job.models);
    ratings_ += static_cast<double>(shapes.size()) * static_cast<double>(nodes.size()) +
                kRatingsPerJob * static_cast<double>(jobs.size());
  }
}

double Rehearsal::AllocatedIn(size_t order, const FillValue& fill, const std::function<bool()>& stop) const {
  Cluster cluster(nodes_[order], std::vector<GpuModel>(models_));
  Placer placer(cluster, mix_, {}, &fill);
  JobId id = 0;
  for (const Job& job : jobs_[order]) {
    if (Asked(stop)) return 0;
    if (const auto spot = placer.Decide(job)) cluster.Place(id++, job, *spot);
  }
  const double all = static_cast<double>(cluster.gpus()) * kWholeGpu;
  return all > 0 ? 100 * static_cast<double>(cluster.allocated_milli()) / all : 0;
}

double Rehearsal::Allocated(const FillValue& fill, const std::function<bool()>& stop) const {
  double sum = 0;
  for (size_t order = 0; order < orders(); ++order) sum += AllocatedIn(order, fill, stop);
  return sum / static_cast<double>(orders());
}

std::vector<double> DrawChange(const std::vector<JobKind>& kinds, base::SplitMix64& random) {
  std::vector<double> change(kinds.size(), 0);
  if (kinds.empty()) return change;
  const auto usual = [&](size_t k) { return kinds[k].gpus == 0 ? kCpuOnlySteps : 1; };
  if (random.Below(2) == 0) {
    for (size_t k = 0; k < kinds.size(); ++k) change[k] = usual(k) * (2 * Draw(random) - 1);
    return change;
  }
  double all = 0;
  for (const JobKind& kind : kinds) all += kind.share;
  // Half of the time any kind, else as often as it comes.
  const auto draw = [&]() -> size_t {
    if (random.Below(2) == 0) return random.Below(kinds.size());
    double rest = all * Draw(random);
    size_t k = 0;
    while (k + 1 < kinds.size() && (rest -= kinds[k].share) > 0) ++k;
    return k;
  };
  const bool by_cpu = random.Below(3) == 0;
  const auto asks = [&](size_t k) { return by_cpu ? kinds[k].cpu_milli : MilliOf(kinds[k]); };
  const size_t one = draw(), other = random.Below(3) == 0 ? one : draw();
  const auto [least, most] = std::minmax({asks(one), asks(other)});
  for (size_t k = 0; k < kinds.size(); ++k)
    if (asks(k) >= least && asks(k) <= most) change[k] = usual(k);
  return change;
}

FillValue BetterByTrial(FillValue best, const std::vector<JobKind>& kinds, const Rehearsal& rehearsal,
                        int trials, const std::function<bool()>& stop) {
  const size_t orders = rehearsal.orders();
  std::vector<double> allocated(orders), with_other(orders);
  for (size_t order = 0; order < orders; ++order) allocated[order] = rehearsal.AllocatedIn(order, best, stop);
  const auto better = [&](const FillValue& other) {
    double more = 0;
    for (size_t order = 0; order < orders && more > -kHopeless; ++order) {
      with_other[order] = rehearsal.AllocatedIn(order, other, stop);
      more += with_other[order] - allocated[order];
    }
    return more > kTrialGain * static_cast<double>(orders) && !Asked(stop);
  };
  base::SplitMix64 random(kSeed);
  while (trials > 0 && !Asked(stop)) {
    const double step = kLeastStep * std::pow(kMostStep / kLeastStep, Draw(random));
    const std::vector<double> change = DrawChange(kinds, random);
    bool gained = false;  // then the same step again, else once the other way
    for (const int sign : {1, -1})
      for (bool again = !gained; again && trials > 0; --trials) {
        std::vector<double> prices = best.prices();
        for (size_t k = 0; k < prices.size(); ++k) prices[k] *= std::exp(sign * step * change[k]);
        FillValue other = best;
        other.Reprice(std::move(prices));
        again = better(other);
        if (!again) continue;
        gained = true;
        allocated = with_other;
        best = std::move(other);
      }
  }
  return best;
}

FillValue BestFillValue(const std::vector<Job>& expected, const JobMix& mix, const std::vector<Node>& nodes,
                        size_t models, const std::vector<double>& waiting, int trials,
                        const std::function<bool()>& stop) {
  const std::vector<JobKind>& kinds = mix.nearly_all();
  FillValue best(kinds, nodes, models, waiting, PriceRule::kInProportion, stop);
  if (expected.empty() || nodes.size() < 2) return best;
  const Rehearsal rehearsal(expected, mix, nodes, models, kSeed);
  double allocated = rehearsal.AllocatedIn(0, best, stop) + kClearly;
  for (const PriceRule rule : {PriceRule::kFair, PriceRule::kFairerToGpus}) {
    FillValue other(kinds, nodes, models, waiting, rule, stop);
    const double with_other = rehearsal.AllocatedIn(0, other, stop);
    if (with_other <= allocated) continue;
    allocated = with_other;
    best = std::move(other);
  }
  trials = static_cast<int>(std::min<double>(trials, kMaxRatings / std::max(rehearsal.Ratings(), 1.0)));
  if (trials <= 0) return best;
  FillValue tried = BetterByTrial(best, kinds, rehearsal, trials, stop);
  const Rehearsal unseen(expected, mix, nodes, models, kCheckSeed);
  return unseen.Allocated(tried, stop) > unseen.Allocated(best, stop) + kSurely ? tried : best;
}

}  // namespace spillway::scheduler
