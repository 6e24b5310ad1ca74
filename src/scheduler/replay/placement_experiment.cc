// SPDX-License-Identifier: Apache-2.0
#include "scheduler/replay/placement_experiment.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/random.h"

namespace spillway::scheduler {
namespace {

// The same on every machine.
class Dice {
 public:
  explicit Dice(uint64_t seed) : bits_(spw_mix64(seed * base::SplitMix64::kStep + 1)) {}
  size_t Below(size_t bound) { return bits_.Below(bound); }
  template <class T>
  void Shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[Below(i)]);
  }

 private:
  base::SplitMix64 bits_;
};

// What is compared.
struct Contestant {
  Policy policy = Policy::kSpillway;
  std::optional<FillValue> fill;
  bool rehearsed = false;
};

std::vector<Contestant> ContestantsOf(const PlacementOptions& options, const std::vector<Job>& jobs,
                                      const JobMix& mix, const NodeList& nodes,
                                      const std::function<bool()>& stop) {
  std::vector<Contestant> all;
  for (const Policy policy : options.policies) {
    if (policy != Policy::kSpillway) {
      all.push_back({policy, {}, false});
      continue;
    }
    for (const auto& rule : options.prices)
      all.push_back(
          {policy,
           rule ? FillValue(mix.nearly_all(), nodes.nodes, nodes.models.size(), {}, *rule, stop)
                : BestFillValue(jobs, mix, nodes.nodes, nodes.models.size(), {}, options.trials, stop),
           !rule});
  }
  return all;
}

PlacementRun RunOne(const NodeList& nodes, const std::vector<Job>& jobs, const JobMix& mix,
                    const Contestant& contestant, PlacerOptions options) {
  Cluster cluster(ShuffleNodes(nodes.nodes, options.seed), nodes.models);
  const FillValue* fill = contestant.fill ? &*contestant.fill : nullptr;
  Placer placer(cluster, mix, options, fill);
  const int64_t all = int64_t{cluster.gpus()} * kWholeGpu;
  PlacementRun run;
  run.policy = options.policy;
  if (fill != nullptr) run.prices = fill->rule();
  run.rehearsed = contestant.rehearsed;
  run.seed = options.seed;
  int64_t asked = 0;
  JobId next = 0;
  bool full = false;
  const auto percent = [&] {
    return 100.0 * static_cast<double>(cluster.allocated_milli()) / static_cast<double>(all);
  };
  run.curve.push_back(0);
  for (const Job& job : jobs) {
    asked += job.TotalMilli();
    if (const auto spot = placer.Decide(job))
      cluster.Place(next++, job, *spot);
    else
      ++run.dropped;
    while (asked * 100 >= static_cast<int64_t>(run.curve.size()) * kCurveStep * all &&
           run.curve.size() <= kDemandPct / kCurveStep)
      run.curve.push_back(percent());
    if (!full && asked >= all) full = true, run.at_100 = percent();
  }
  run.at_130 = percent();
  return run;
}

}  // namespace

std::vector<Job> DrawJobs(const JobList& list, int64_t milli, uint64_t seed) {
  Dice dice(seed);
  std::vector<Job> shuffled, jobs;
  for (const TraceJob& one : list.jobs) shuffled.push_back(one.job);
  dice.Shuffle(shuffled);
  int64_t asked = 0;
  const auto add = [&](const Job& job) {
    jobs.push_back(job);
    asked += job.TotalMilli();
    return asked * 100 < milli * kDemandPct;
  };
  for (const Job& job : shuffled)
    if (!add(job)) return jobs;
  if (asked > 0)
    while (add(list.jobs[dice.Below(list.jobs.size())].job)) {
    }
  return jobs;
}

std::vector<Node> ShuffleNodes(std::vector<Node> nodes, uint64_t seed) {
  // Apart from the dice of DrawJobs, so that the order of jobs does not depend on how many nodes there are.
  Dice dice(~seed);
  dice.Shuffle(nodes);
  return nodes;
}

size_t CountRuns(const PlacementOptions& options) {
  size_t rows = 0;
  for (const Policy policy : options.policies)
    rows += policy == Policy::kSpillway ? options.prices.size() : 1;
  return rows * static_cast<size_t>(options.seeds);
}

std::vector<PlacementRun> RunPlacement(const NodeList& nodes, const JobList& jobs,
                                       const PlacementOptions& options,
                                       const std::function<void(size_t, size_t)>& tell,
                                       const std::function<bool()>& stop) {
  int64_t milli = 0;
  for (const Node& node : nodes.nodes) milli += int64_t{node.gpus} * kWholeGpu;
  std::vector<Job> all;
  for (const TraceJob& one : jobs.jobs) all.push_back(one.job);
  const JobMix mix(all, static_cast<int>(nodes.models.size()));
  const std::vector<Contestant> contestants = ContestantsOf(options, all, mix, nodes, stop);
  std::vector<PlacementRun> runs;
  BoundFinder bounds(nodes.nodes, nodes.models.size());
  for (int seed = 1; seed <= options.seeds; ++seed) {
    const std::vector<Job> order = DrawJobs(jobs, milli, static_cast<uint64_t>(seed));
    const size_t before = runs.size();
    const auto bound = options.bound ? bounds.Find(order, stop) : std::nullopt;
    for (const Contestant& one : contestants) {
      if (stop && stop()) {  // means over seeds that differ are not to be compared
        runs.resize(before);
        return runs;
      }
      runs.push_back(
          RunOne(nodes, order, mix, one, {one.policy, options.objective, static_cast<uint64_t>(seed)}));
      runs.back().bound = bound;
      if (tell) tell(runs.size(), CountRuns(options));
    }
  }
  return runs;
}

}  // namespace spillway::scheduler
