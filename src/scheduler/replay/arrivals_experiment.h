// SPDX-License-Identifier: Apache-2.0
// Jobs that come, wait where they do not fit, and leave: a cluster in its steady state under one policy after
// another. How much is allocated, how long do jobs wait, how fragmented is what is free? Pure; one thread.
//
// The queue is served in order of arrival, and who does not fit does not hold up those behind (first-come
// first-served with backfilling): on each departure the first that fits starts, then the next.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "scheduler/placer.h"
#include "scheduler/replay/arrivals_order.h"
#include "scheduler/replay/openb_lists.h"

namespace spillway::scheduler {

// Where a policy that goes by what usually comes has that from.
//   none    the policy does not ask for it
//   learnt  the jobs that are there, as it goes (look_ahead.h)
//   list    the list, which counts arrivals: as FGD's authors do
enum class Demand : uint8_t { kNone, kLearnt, kList };
[[nodiscard]] const char* ToString(Demand demand);
[[nodiscard]] std::optional<Demand> DemandByName(std::string_view name);

struct ArrivalsOptions : ArrivalsLoad {
  std::vector<Policy> policies;
  std::vector<Demand> demands = {Demand::kLearnt, Demand::kList};  // of policies spillway and fgd, a row each
  int seeds = 5;                                                   // 1, 2, ...
  // Running jobs that may be moved to make room for one that would wait, per 100 jobs that came. 0: none.
  // One run for each entry.
  std::vector<int> moves_per_100 = {0, 5};
};
inline constexpr double kWarmUp = 0.2;

// What is compared.
struct ArrivalsContestant {
  Policy policy = Policy::kSpillway;
  Demand demand = Demand::kNone;
  int moves_per_100 = 0;
  bool operator==(const ArrivalsContestant&) const = default;
};

struct ArrivalsRun {
  ArrivalsContestant who;
  uint64_t seed = 0;
  // Means over time, % of the cluster's milli: allocated; free, but of no use to the list's jobs (FGD's
  // measure); asked for by the jobs that wait.
  double allocated_pct = 0, fragmented_pct = 0, waiting_pct = 0;
  // Queueing delay of the jobs that came, in seconds; those that still wait at the end count with what they
  // waited so far.
  double delay_mean_s = 0, delay_p50_s = 0, delay_p99_s = 0;
  double delay_several_gpus_mean_s = 0;  // of those that asked for more than one GPU
  double delayed_pct = 0;                // jobs that did not start at once
  double moves = 0;                      // per 100 jobs
  int learnt = 0;                        // how often what comes was learnt anew
  std::vector<double> curve;  // allocated %, mean of each of kArrivalsParts equal parts of the measured time
};
inline constexpr int kArrivalsParts = 50;

[[nodiscard]] ArrivalsRun RunArrivalsOnce(const NodeList& nodes, const JobList& list,
                                          const ArrivalsOrder& order, const ArrivalsContestant& who,
                                          uint64_t seed);

[[nodiscard]] size_t CountRuns(const ArrivalsOptions& options);

// Every policy, demand, seed and number of moves. `tell(done, total)` after each run; `stop` is asked
// before each: then the runs of the seeds that are done are returned.
[[nodiscard]] std::vector<ArrivalsRun> RunArrivals(const NodeList& nodes, const JobList& list,
                                                   const ArrivalsOptions& options,
                                                   const std::function<void(size_t, size_t)>& tell,
                                                   const std::function<bool()>& stop);

}  // namespace spillway::scheduler
