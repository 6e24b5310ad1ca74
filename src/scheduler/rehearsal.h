// SPDX-License-Identifier: Apache-2.0
// Which prices to go by, found out by rehearsal: with each, an empty cluster of the same nodes is filled with
// jobs drawn from those that are expected. Pure.
//
// The prices of a linear program know averages. What they leave out (host memory, the order of arrival, jobs
// that are refused while smaller ones still fit) is in the rehearsal. So it first says which of the program's
// rules to go by, and then the prices are changed by trial, and kept where more is allocated.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/random.h"
#include "scheduler/fill_value.h"
#include "scheduler/fragmentation.h"

namespace spillway::scheduler {

// Fills the same empty clusters with the same jobs for all prices that are to be compared.
class Rehearsal {
 public:
  // `mix`: of `expected`. What is drawn depends on `seed` alone.
  Rehearsal(const std::vector<Job>& expected, const JobMix& mix, const std::vector<Node>& nodes,
            size_t models, uint64_t seed);

  [[nodiscard]] size_t orders() const { return jobs_.size(); }  // of arrival
  // % of the cluster's milli that are allocated when the jobs that came, in that order, have asked for
  // kRehearsedPct of its GPUs. Of no use once `stop` says so.
  [[nodiscard]] double AllocatedIn(size_t order, const FillValue& fill,
                                   const std::function<bool()>& stop = {}) const;
  // The mean over all orders.
  [[nodiscard]] double Allocated(const FillValue& fill, const std::function<bool()>& stop = {}) const;
  // What it costs to fill all clusters once: about as much as to rate so many nodes.
  [[nodiscard]] double Ratings() const { return ratings_; }

 private:
  const JobMix& mix_;
  size_t models_;
  double ratings_ = 0;
  std::vector<std::vector<Node>> nodes_;  // as they are, then shuffled: ties go to the first
  std::vector<std::vector<Job>> jobs_;
};
inline constexpr int kRehearsedPct = 130;

// The look-ahead under whose prices most is allocated: of rule in-proportion unless another is better by
// kClearly points, and then after so many trials, unless they gain less than kSurely on jobs that they have
// not seen. `mix`: of `expected`. Once `stop` says so, it ends soon, with prices that are of no use.
[[nodiscard]] FillValue BestFillValue(const std::vector<Job>& expected, const JobMix& mix,
                                      const std::vector<Node>& nodes, size_t models,
                                      const std::vector<double>& waiting = {}, int trials = 0,
                                      const std::function<bool()>& stop = {});
inline constexpr double kClearly = 0.25, kSurely = 0.01;
// They take 15 to 30 seconds on a thousand nodes. Half as many gain half to three quarters as much.
inline constexpr int kTrials = 120;

// The prices after so many trials. A trial changes some, and what it changed stays where more is allocated in
// the rehearsal. `kinds`: those that are priced.
[[nodiscard]] FillValue BetterByTrial(FillValue best, const std::vector<JobKind>& kinds,
                                      const Rehearsal& rehearsal, int trials,
                                      const std::function<bool()>& stop = {});

// What a trial changes, one factor of its step per kind: half of the time all kinds, each by as much as
// chance has it; else those alone that ask for between as much of GPUs, or of CPU, as two kinds do.
[[nodiscard]] std::vector<double> DrawChange(const std::vector<JobKind>& kinds, base::SplitMix64& random);

}  // namespace spillway::scheduler
