// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/compute_capacity.h"

#include <algorithm>

namespace spillway::lab {

namespace {

constexpr double kFewRequests = 5;    // enough to learn how slow the unit is, few enough not to wait long
constexpr double kSomeRequests = 10;  // of which a median or a mean means something
constexpr double kLongest = 30;       // seconds of load; a unit this slow is measured by fewer
constexpr double kLow = 0.1;          // unloaded
constexpr double kHigh = 0.8;         // busy caches and cores, but no standing queue

double LongEnough(double rate, double seconds) {
  return std::max(seconds, std::min(kSomeRequests / rate, kLongest));
}

// CPUs' worth of work per second.
double Share(const UnitSpec& unit, size_t cpus) {
  const double most = std::min(static_cast<double>(WorkersOf(unit)), static_cast<double>(cpus));
  return unit.quota ? std::min(most, std::chrono::duration<double>(unit.quota->quota) / unit.quota->period)
                    : most;
}

// What an answer takes of a worker, by `quantile` of those without a quota: some may have waited.
Result<double> CostSeconds(const UnitSpec& unit, const MeteredSample& run, double quantile) {
  const auto& latencies = run.sample.latencies_ms;
  if (latencies.empty()) return Fail(ErrorCode::kSystem, unit.name + " answers nothing");
  if (!unit.quota)
    return latencies[static_cast<size_t>(quantile * static_cast<double>(latencies.size() - 1))] / 1e3;
  const std::chrono::duration<double> used = run.cpu_time;
  if (used.count() <= 0) return Fail(ErrorCode::kSystem, unit.name + ": its CPU time cannot be read");
  return used.count() / static_cast<double>(latencies.size());
}

}  // namespace

Pace UnloadedPace(double capacity_rps, double seconds) {
  const double rate = kLow * capacity_rps;
  return {rate, LongEnough(rate, seconds)};
}

Result<double> ComputeCapacity(const UnitSpec& unit, size_t cpus, double seconds, const LoadAt& load) {
  const double share = Share(unit, cpus);
  const auto capacity = [&](double cost) { return share / cost; };
  const auto few = load(kFewRequests / seconds, seconds);
  if (!few) return tl::make_unexpected(few.error());
  const auto first = CostSeconds(unit, *few, 0).map(capacity);
  if (!first) return first;
  // CPU time per answer is best read busy; latency stands for service only where nobody waits.
  const double rate = *first * (unit.quota ? kHigh : kLow);
  const auto many = load(rate, LongEnough(rate, seconds));
  if (!many) return tl::make_unexpected(many.error());
  return CostSeconds(unit, *many, 0.5).map(capacity);
}

}  // namespace spillway::lab
