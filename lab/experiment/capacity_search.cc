// SPDX-License-Identifier: Apache-2.0
#include "capacity_search.h"

#include <algorithm>
#include <cmath>

namespace spillway::lab {
namespace {

constexpr double kLowest = 1, kHighest = 1e7;
constexpr int kMaxRounds = 8;  // of the machine's bad and good moments
constexpr const char* kUnsteady = "the rate that the testbed sustains varies too much";

}  // namespace

Result<double> HighestSustained(double first, const Sustains& sustains) {
  const auto tried = [&](double rate) {
    auto good = sustains(rate, 1);
    return good && !*good ? sustains(rate, 1) : good;
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
  for (int round = 0; round < kMaxRounds; ++round) {
    while (high / low > kSearchAccuracy) {
      const double rate = std::sqrt(low * high);
      const auto good = tried(rate);
      if (!good) return tl::make_unexpected(good.error());
      (*good ? low : high) = rate;
    }
    double lost = 0;  // the lowest that could not be confirmed; 0: none
    double step = kSearchAccuracy;
    const double least = std::max(kLowest, low / kSearchStep);
    for (;; lost = low, low = std::max(low / step, least), step *= step) {
      const auto good = sustains(low, kConfirmingSlices);
      if (!good) return tl::make_unexpected(good.error());
      if (*good) break;
      if (low <= least) return Fail(ErrorCode::kSystem, kUnsteady);
    }
    while (lost / low > kSearchAccuracy) {
      const double rate = std::sqrt(low * lost);
      const auto good = sustains(rate, kConfirmingSlices);
      if (!good) return tl::make_unexpected(good.error());
      (*good ? low : lost) = rate;
    }
    const auto more = sustains(low * kBadMoment, kConfirmingSlices);
    if (!more) return tl::make_unexpected(more.error());
    if (!*more) return low;
    low *= kBadMoment;
    for (high = low * kBadMoment;; high *= kBadMoment) {
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
