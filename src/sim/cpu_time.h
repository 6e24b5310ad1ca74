// SPDX-License-Identifier: Apache-2.0
// CPU time that units get where it is scarce: CPUs that several share, and a quota in each period.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <vector>

#include "sim/scenario/scenario.h"

namespace spillway::sim {

// CPUs on which several units work, none of which has one of its own: who is placed first works first, later
// ones take the gaps that are left. A scheduler would let them work in turns; how much is done by when is the
// same. Not thread-safe.
class SharedCpus {
 public:
  explicit SharedCpus(uint32_t cpus) : busy_(cpus) {}

  // A time at which a CPU is free, from `begin` to `end`.
  struct Gap {
    uint32_t cpu;
    int64_t begin, end;
  };
  // The first at or after `time`.
  [[nodiscard]] Gap FirstGap(int64_t time) const;
  void Take(uint32_t cpu, int64_t begin, int64_t end);
  // Nobody will ask for a time before this one.
  void Forget(int64_t time);

 private:
  std::vector<std::map<int64_t, int64_t>> busy_;  // of each CPU, begin to end, apart from each other
};

// CPU time under a quota: when work is done that gets so much of it in every period, from one budget for all
// workers of a unit, as Linux's CFS bandwidth control gives it out. Not thread-safe.

// With a tick, work is stopped only at multiples of it: it may overrun the budget by nearly a tick, and the
// debt is paid from the periods that follow. Who wakes up while the budget is used up waits for the next.
//
// Several workers draw in the order in which they are given work: who began first takes what he needs of
// each period, and later ones what is left. Real ones draw side by side and stop together; the sum per period
// is the same, but the first here is done earlier than there.
class CpuWithQuota {
 public:
  static constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

  // phase: when a period begins; the others follow at its length.
  explicit CpuWithQuota(const CpuQuota& quota, int64_t phase = 0);

  // No later Run begins before `now`, or it is moved there.
  void Forget(int64_t now);
  // Works from `start` until `until` or until `work` ns of CPU time are done, and returns that moment; what
  // is left stays in `work`. woken: its worker slept before. shared: where others work, too. A start in
  // a period that was forgotten is moved to the first that was not.
  int64_t Run(int64_t start, int64_t until, bool woken, int64_t& work, SharedCpus* shared = nullptr);

  // As a control group's accounts: CPU time used by `now` since it was first asked, and periods begun by
  // then. Asked in the order of time.
  int64_t UsedBy(int64_t now);
  int64_t PeriodsBy(int64_t now) const { return PeriodOf(now) + 1; }

  // When `work` ns of CPU time, begun at `start` by a worker that slept, are done.
  int64_t Finish(int64_t start, int64_t work) { return Run(start, kForever, true, work); }

 private:
  int64_t PeriodOf(int64_t time) const { return (time - phase_ + period_) / period_ - 1; }
  int64_t EndOf(int64_t index) const { return phase_ + (index + 1) * period_; }
  int64_t& Left(int64_t index);
  void Draw(int64_t index, int64_t amount);

  struct Stretch {
    int64_t begin, end;
  };

  int64_t quota_, period_, tick_, phase_;
  std::deque<int64_t> left_;  // budgets of periods, from first_ on; below 0: a debt
  int64_t first_ = -1;
  // Work done, or to be done, that UsedBy has not counted; and what it has.
  std::vector<Stretch> uncounted_;
  int64_t counted_ = 0;
  bool is_accounted_ = false;
};

// How long `work` ns of CPU time take on a CPU that has been idle, begun at any moment: the mean.
[[nodiscard]] int64_t MeanFinish(const CpuQuota& quota, int64_t work);

}  // namespace spillway::sim
