// SPDX-License-Identifier: Apache-2.0
// Which jobs come when in the arrivals experiment. Pure.
//
// Arrivals are Poisson; each is a job of the list, drawn uniformly, with its own duration. The rate is such
// that the jobs ask for `load_pct` of the cluster's GPU time. A run begins with the jobs that would be there
// had it gone on for ever: drawn in proportion to their durations, with what is left of these.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/replay/openb_lists.h"

namespace spillway::scheduler {

struct ArrivalsLoad {
  int load_pct = 95;
  int arrivals = 100'000;  // per run; the first kWarmUp of them are not measured
  // Durations above this are cut to it; 0: none is. In the openb lists a hundred jobs of months are nine
  // tenths of all GPU time: uncut, a run's cluster is theirs and hardly moves.
  int64_t longest_s = 6 * 3600;
};

// Of all the nodes' GPUs.
[[nodiscard]] int64_t MilliOf(const NodeList& nodes);

// How many jobs are there at a time if all find a place; 0: no job asks for GPUs and lasts. The fewer jobs
// ask for GPUs, the more of the others come beside them.
[[nodiscard]] double JobsAtOnce(const NodeList& nodes, const JobList& list, const ArrivalsLoad& load);
inline constexpr int kMaxJobsAtOnce = 2'000'000;  // a gigabyte or so

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
// Of a list with times for which JobsAtOnce is above 0 and no more than kMaxJobsAtOnce.
[[nodiscard]] ArrivalsOrder DrawArrivals(const JobList& list, int64_t milli, const ArrivalsLoad& load,
                                         uint64_t seed);

}  // namespace spillway::scheduler
