// SPDX-License-Identifier: Apache-2.0
// Percentiles and medians, exact on recorded samples (no sketch, no interpolation between samples in
// Percentile). Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace spillway::report {

// The smallest sample that at least `percent` of all samples do not exceed (nearest rank), so the
// answer is always a value that was measured. percent in [0, 100]: 0 is the minimum, 100 the maximum.
// `sorted` ascends. No samples: NaN.
[[nodiscard]] double Percentile(std::span<const double> sorted, double percent);

// The same on unsorted samples; sorts a copy.
[[nodiscard]] double PercentileOf(std::vector<double> samples, double percent);

// The middle sample, or the mean of the middle two. No samples: NaN.
[[nodiscard]] double Median(std::vector<double> samples);

struct Spread {
  std::size_t count = 0;
  double min = 0, median = 0, max = 0;  // NaN when count is 0
};

// What a benchmark's rounds gave: the median and how far the rounds lay apart.
[[nodiscard]] Spread SpreadOf(std::vector<double> samples);

}  // namespace spillway::report
