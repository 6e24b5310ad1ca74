// SPDX-License-Identifier: Apache-2.0
#include "scheduler/placement_experiment.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/random.h"
#include "scheduler/rehearsal.h"

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

PlacementRun RunOne(const NodeList& nodes, const std::vector<Job>& jobs, const JobMix& mix,
                    const FillValue* fill, PlacerOptions options) {
  Cluster cluster(ShuffleNodes(nodes.nodes, options.seed), nodes.models);
  Placer placer(cluster, mix, options, fill);
  const int64_t all = int64_t{cluster.gpus()} * kWholeGpu;
  PlacementRun run;
  run.policy = options.policy;
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
  std::vector<Job> jobs;
  int64_t asked = 0;
  const auto add = [&](const Job& job) {
    jobs.push_back(job);
    asked += job.TotalMilli();
  };
  for (const TraceJob& one : list.jobs) add(one.job);
  dice.Shuffle(jobs);
  if (asked > 0)
    while (asked * 100 < milli * kDemandPct) add(list.jobs[dice.Below(list.jobs.size())].job);
  return jobs;
}

std::vector<Node> ShuffleNodes(std::vector<Node> nodes, uint64_t seed) {
  // Apart from the dice of DrawJobs, so that the order of jobs does not depend on how many nodes there are.
  Dice dice(~seed);
  dice.Shuffle(nodes);
  return nodes;
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
  std::optional<FillValue> fill;
  if (std::find(options.policies.begin(), options.policies.end(), Policy::kSpillway) !=
      options.policies.end())
    fill.emplace(BestFillValue(all, mix, nodes.nodes, nodes.models.size()));
  std::vector<PlacementRun> runs;
  BoundFinder bounds(nodes.nodes, nodes.models.size());
  const size_t total = options.policies.size() * static_cast<size_t>(options.seeds);
  for (int seed = 1; seed <= options.seeds; ++seed) {
    const std::vector<Job> order = DrawJobs(jobs, milli, static_cast<uint64_t>(seed));
    if (stop && stop()) return runs;
    const PlacementBound bound = options.bound ? bounds.Find(order) : PlacementBound{};
    for (const Policy policy : options.policies) {
      if (stop && stop()) return runs;
      runs.push_back(RunOne(nodes, order, mix, fill ? &*fill : nullptr,
                            {policy, options.objective, static_cast<uint64_t>(seed)}));
      runs.back().bound = bound;
      if (tell) tell(runs.size(), total);
    }
  }
  return runs;
}

}  // namespace spillway::scheduler
