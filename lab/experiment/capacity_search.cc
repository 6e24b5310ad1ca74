// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/capacity_search.h"

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
    while (low != confirmed) {
      const auto good = sustains(low, care.confirming_slices);
      if (!good) return tl::make_unexpected(good.error());
      if (*good) break;
      if (low <= least) return Fail(ErrorCode::kSystem, kUnsteady);
      lost = low;
      low = std::max(low / step, least);
      step *= step;
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

}  // namespace spillway::lab
