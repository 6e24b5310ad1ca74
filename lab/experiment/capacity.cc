// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace spillway::lab {

namespace {

constexpr double kLowest = 1, kHighest = 1e7;
constexpr int kMaxRounds = 8;  // of the machine's bad and good moments
constexpr const char* kUnsteady = "the rate that the testbed sustains varies too much";

}  // namespace

SearchCare SearchCare::Within(double percent) {
  constexpr double kExact = 10;
  SearchCare care;
  care.accuracy = 1 + percent / 100;
  if (percent > kExact) {
    care.confirming_slices = 2;
    care.losses = 1;
  }
  care.bad_moment = std::max(care.bad_moment, care.accuracy);
  return care;
}

Result<double> HighestSustained(double first, const SearchCare& care, const Sustains& sustains) {
  const auto tried = [&](double rate) {
    auto good = sustains(rate, 1);
    for (int lost = 1; good && !*good && lost < care.losses; lost++) good = sustains(rate, 1);
    return good;
  };
  double low = 0, high = 0;  // sustained, and not; 0: none yet
  for (double rate = first; low == 0 || high == 0;
       rate = low == 0 ? rate / kSearchStep : rate * kSearchStep) {
    if (rate < kLowest) return Fail(ErrorCode::kSystem, "the testbed does not sustain even 1 request/s");
    if (rate > kHighest) return Fail(ErrorCode::kSystem, "the testbed sustained every rate that was tried");
    const auto good = tried(rate);
    if (!good) return tl::make_unexpected(good.error());
    (*good ? low : high) = rate;
  }
  double confirmed = 0;  // the last that was; 0: none
  for (int round = 0; round < kMaxRounds; ++round) {
    while (high / low > care.accuracy) {
      const double rate = std::sqrt(low * high);
      const auto good = tried(rate);
      if (!good) return tl::make_unexpected(good.error());
      (*good ? low : high) = rate;
    }
    double lost = 0;  // the lowest that could not be confirmed; 0: none
    double step = care.accuracy;
    const double least = std::max(kLowest, low / kSearchStep);
    for (; low != confirmed; lost = low, low = std::max(low / step, least), step *= step) {
      const auto good = sustains(low, care.confirming_slices);
      if (!good) return tl::make_unexpected(good.error());
      if (*good) break;
      if (low <= least) return Fail(ErrorCode::kSystem, kUnsteady);
    }
    while (lost / low > care.accuracy) {
      const double rate = std::sqrt(low * lost);
      const auto good = sustains(rate, care.confirming_slices);
      if (!good) return tl::make_unexpected(good.error());
      (*good ? low : lost) = rate;
    }
    // Confirmed above what had been found, and what is above that was lost since.
    if (low == confirmed) return low;
    const auto more = sustains(low * care.bad_moment, care.confirming_slices);
    if (!more) return tl::make_unexpected(more.error());
    if (!*more) return low;
    confirmed = low *= care.bad_moment;
    for (high = low * care.bad_moment;; high *= care.bad_moment) {
      if (high > kHighest) return Fail(ErrorCode::kSystem, "the testbed sustained every rate that was tried");
      const auto good = tried(high);
      if (!good) return tl::make_unexpected(good.error());
      if (!*good) break;
      low = high;
    }
  }
  return Fail(ErrorCode::kSystem, kUnsteady);
}

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
