// SPDX-License-Identifier: Apache-2.0
#include "capacity_search.h"

#include <algorithm>
#include <cmath>

namespace spillway::lab {
namespace {

constexpr double kLowest = 1, kHighest = 1e7;

}  // namespace

Result<double> HighestSustained(double first, const Sustains& sustains) {
  const auto tried = [&](double rate) {
    auto good = sustains(rate, 1);
    return good && !*good ? sustains(rate, 1) : good;
  };
  double low = 0, high = 0;  // sustained, and not; 0: none yet
  for (double rate = first; low == 0 || high == 0;
       rate = low == 0 ? rate / kSearchStep : rate * kSearchStep) {
    if (rate < kLowest) return Fail(ErrorCode::kSystem, "it does not even sustain 1 request/s");
    if (rate > kHighest) return Fail(ErrorCode::kSystem, "it sustains any rate that was tried");
    const auto good = tried(rate);
    if (!good) return tl::make_unexpected(good.error());
    (*good ? low : high) = rate;
  }
  for (;;) {
    while (high / low > kSearchAccuracy) {
      const double rate = std::sqrt(low * high);
      const auto good = tried(rate);
      if (!good) return tl::make_unexpected(good.error());
      (*good ? low : high) = rate;
    }
    for (const double found = low;; low /= kSearchAccuracy) {
      if (low < std::max(kLowest, found / kSearchStep))
        return Fail(ErrorCode::kSystem, "what it sustains differs too much from one moment to the next");
      const auto good = sustains(low, kConfirmingSlices);
      if (!good) return tl::make_unexpected(good.error());
      if (*good) break;
    }
    const auto more = sustains(low * kBadMoment, kConfirmingSlices);
    if (!more) return tl::make_unexpected(more.error());
    if (!*more) return low;
    low *= kBadMoment;
    for (high = low * kBadMoment;; high *= kBadMoment) {
      if (high > kHighest) return Fail(ErrorCode::kSystem, "it sustains any rate that was tried");
      const auto good = tried(high);
      if (!good) return tl::make_unexpected(good.error());
      if (!*good) break;
      low = high;
    }
  }
}

}  // namespace spillway::lab
