// SPDX-License-Identifier: Apache-2.0
#include "scheduler/replay/arrivals_order.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/random.h"

namespace spillway::scheduler {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : bits_(spw_mix64(seed * base::SplitMix64::kStep + 2)) {}
  double Unit() { return (static_cast<double>(bits_.Bits() >> 11) + 0.5) * 0x1p-53; }  // (0, 1)
  size_t Below(size_t bound) { return bits_.Below(bound); }

 private:
  base::SplitMix64 bits_;
};

// How often jobs come, and how long each of the list lasts.
struct Rates {
  std::vector<double> lasts, until;  // s; until: sums, to draw in proportion to the duration
  double per_second = 0;             // jobs that come
  double at_once = 0;                // jobs that are there: as many as come in a mean duration (Little's law)
};

Rates RatesOf(const JobList& list, int64_t milli, const ArrivalsLoad& load) {
  Rates rates;
  double sum = 0, milli_seconds = 0;
  for (const TraceJob& one : list.jobs) {
    auto seconds = static_cast<double>(one.leaves_s - one.arrives_s);
    if (load.longest_s > 0) seconds = std::min(seconds, static_cast<double>(load.longest_s));
    rates.lasts.push_back(seconds);
    rates.until.push_back(sum += seconds);
    milli_seconds += seconds * one.job.TotalMilli();
  }
  if (milli_seconds <= 0) return rates;
  const auto count = static_cast<double>(list.jobs.size());
  rates.per_second = 0.01 * load.load_pct * static_cast<double>(milli) / (milli_seconds / count);
  rates.at_once = rates.per_second * sum / count;
  return rates;
}

}  // namespace

int64_t MilliOf(const NodeList& nodes) {
  int64_t milli = 0;
  for (const Node& node : nodes.nodes) milli += int64_t{node.gpus} * kWholeGpu;
  return milli;
}

void BorrowDurations(JobList& list, const JobList& from) {
  const auto sort_of = [](const Job& job) {
    return job.gpus == 0 ? 0 : job.Fractional() ? 1 : job.gpus == 1 ? 2 : 3;
  };
  std::array<std::vector<int64_t>, 4> lasts;
  std::vector<int64_t> any;
  for (const TraceJob& one : from.jobs) {
    lasts[static_cast<size_t>(sort_of(one.job))].push_back(one.leaves_s - one.arrives_s);
    any.push_back(one.leaves_s - one.arrives_s);
  }
  if (any.empty()) return;
  std::array<size_t, 4> next = {};
  for (TraceJob& one : list.jobs) {
    const auto sort = static_cast<size_t>(sort_of(one.job));
    const std::vector<int64_t>& pool = lasts[sort].empty() ? any : lasts[sort];
    one.arrives_s = 0;
    one.leaves_s = pool[next[sort]++ % pool.size()];
  }
  list.timed = true;
}

double JobsAtOnce(const NodeList& nodes, const JobList& list, const ArrivalsLoad& load) {
  return RatesOf(list, MilliOf(nodes), load).at_once;
}

ArrivalsOrder DrawArrivals(const JobList& list, int64_t milli, const ArrivalsLoad& load, uint64_t seed) {
  const Rates rates = RatesOf(list, milli, load);
  ArrivalsOrder order;
  if (rates.at_once <= 0) return order;
  Dice dice(seed);
  const auto there = static_cast<size_t>(std::llround(rates.at_once));
  for (size_t i = 0; i < there; ++i) {
    const auto at =
        std::upper_bound(rates.until.begin(), rates.until.end(), dice.Unit() * rates.until.back()) -
        rates.until.begin();
    const auto j = std::min<size_t>(static_cast<size_t>(at), list.jobs.size() - 1);
    order.first.push_back({list.jobs[j].job, 0, rates.lasts[j] * dice.Unit()});
  }
  double now = 0;
  for (int i = 0; i < load.arrivals; ++i) {
    now -= std::log(dice.Unit()) / rates.per_second;
    const size_t j = dice.Below(list.jobs.size());
    order.then.push_back({list.jobs[j].job, now, rates.lasts[j]});
  }
  return order;
}

}  // namespace spillway::scheduler
