// SPDX-License-Identifier: Apache-2.0
// Jobs that come, wait where they do not fit, and leave: a cluster in its steady state under one policy after
// another. How much is allocated, how long do jobs wait, how fragmented is what is free? Pure; one thread.
//
// Arrivals are Poisson; each is a job of the list, drawn uniformly, with its own duration. The rate is such
// that the jobs ask for `load_pct` of the cluster's GPU time. A run begins with the jobs that would be there
// had it gone on for ever: drawn in proportion to their durations, with what is left of these. The queue is
// served in order of arrival, and who does not fit does not hold up those behind (first-come first-served
// with backfilling): on each departure the first that fits starts, then the next.
#pragma once

#include <functional>
#include <vector>

#include "scheduler/placer.h"
#include "scheduler/trace_reader.h"

namespace spillway::scheduler {

struct ArrivalsOptions {
  std::vector<Policy> policies;
  int seeds = 5;  // 1, 2, ...
  int load_pct = 95;
  int arrivals = 100'000;  // per run; the first kWarmUp of them are not measured
  // Durations above this are cut to it; 0: none is. In the openb lists a hundred jobs of months are nine
  // tenths of all GPU time: uncut, a run's cluster is theirs and hardly moves.
  int64_t longest_s = 6 * 3600;
  // Running jobs that may be moved to make room for one that would wait, per 100 jobs that came. 0: none.
  // One run for each entry.
  std::vector<int> moves_per_100 = {0, 5};
  // Policy `spillway` learns what usually comes from the jobs that are there, as it goes. Otherwise it is
  // given the list, as FGD is.
  bool learn = true;
};
inline constexpr double kWarmUp = 0.2;

struct ArrivalsRun {
  Policy policy = Policy::kSpillway;
  uint64_t seed = 0;
  int moves_per_100 = 0;
  // Means over time, % of the cluster's milli: allocated; free, but of no use to the list's jobs (FGD's
  // measure); asked for by the jobs that wait.
  double allocated_pct = 0, fragmented_pct = 0, waiting_pct = 0;
  // Queueing delay of the jobs that came, in seconds; those that still wait at the end count with what they
  // waited so far.
  double delay_mean_s = 0, delay_p50_s = 0, delay_p99_s = 0;
  double delay_several_gpus_mean_s = 0;  // of those that asked for more than one GPU
  double delayed_pct = 0;                // jobs that did not start at once
  double moves = 0;                      // per 100 jobs
  int learnt = 0;                        // how often the look-ahead was learnt anew
  std::vector<double> curve;  // allocated %, mean of each of kArrivalsParts equal parts of the measured time
};
inline constexpr int kArrivalsParts = 50;

// Gives the jobs of a list without times the durations of another list's, each that of one of the same sort
// (no GPU, a part of one, one, several), in turn; of any sort where there is none of the same.
void BorrowDurations(JobList& list, const JobList& from);

// The jobs of one run. Times in seconds from the beginning.
struct TimedJob {
  Job job;
  double arrives = 0, lasts = 0;
  bool operator==(const TimedJob&) const = default;
};
struct ArrivalsOrder {
  std::vector<TimedJob> first;  // there at the beginning
  std::vector<TimedJob> then;   // in order of arrival
};
// Of a list with times, some job of which asks for GPUs and lasts.
[[nodiscard]] ArrivalsOrder DrawArrivals(const JobList& list, int64_t milli, const ArrivalsOptions& options,
                                         uint64_t seed);

[[nodiscard]] ArrivalsRun RunArrivalsOnce(const NodeList& nodes, const JobList& list,
                                          const ArrivalsOrder& order, const PlacerOptions& how,
                                          const ArrivalsOptions& options, int moves_per_100);

// Every policy, seed and number of moves. `tell(done, total)` after each run; `stop` is asked
// before each: then the runs so far are returned.
[[nodiscard]] std::vector<ArrivalsRun> RunArrivals(const NodeList& nodes, const JobList& list,
                                                   const ArrivalsOptions& options,
                                                   const std::function<void(size_t, size_t)>& tell,
                                                   const std::function<bool()>& stop);

}  // namespace spillway::scheduler
