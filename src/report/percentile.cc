// SPDX-License-Identifier: Apache-2.0
#include "percentile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace spillway::report {

namespace {
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
}

double Percentile(std::span<const double> sorted, double percent) {
  if (sorted.empty()) return kNaN;
  const auto count = static_cast<double>(sorted.size());
  // 99.9 / 100 * 1000 is 999.0000000000001 in binary; the slack keeps such a product at rank 999.
  const double rank = std::ceil(percent / 100.0 * count - 1e-9 * count);
  return sorted[static_cast<std::size_t>(std::clamp(rank, 1.0, count)) - 1];
}

double PercentileOf(std::vector<double> samples, double percent) {
  std::sort(samples.begin(), samples.end());
  return Percentile(samples, percent);
}

double Median(std::vector<double> samples) {
  if (samples.empty()) return kNaN;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  if (samples.size() % 2 == 1) return *middle;
  return (*std::max_element(samples.begin(), middle) + *middle) / 2;
}

Spread SpreadOf(std::vector<double> samples) {
  if (samples.empty()) return {0, kNaN, kNaN, kNaN};
  const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
  Spread spread{samples.size(), *low, 0, *high};
  spread.median = Median(std::move(samples));
  return spread;
}

}  // namespace spillway::report
