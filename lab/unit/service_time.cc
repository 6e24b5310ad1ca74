// SPDX-License-Identifier: Apache-2.0
#include "service_time.h"

#include <cmath>
#include <numbers>

namespace spillway::unit {

ServiceTime::ServiceTime(Distribution distribution, std::chrono::nanoseconds mean, double cv,
                         std::uint64_t seed)
    : distribution_(distribution), mean_ns_(static_cast<double>(mean.count())), random_(seed) {
  // X = exp(mu + sigma Z) has mean exp(mu + sigma^2 / 2) and cv^2 = exp(sigma^2) - 1.
  sigma_ = std::sqrt(std::log1p(cv * cv));
  mu_ = -sigma_ * sigma_ / 2;
}

double ServiceTime::Uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

std::int64_t ServiceTime::NextNs() {
  double factor = 1;
  if (distribution_ == Distribution::kExponential) {
    factor = -std::log1p(-Uniform());
  } else if (distribution_ == Distribution::kLognormal && sigma_ > 0) {
    const double radius = std::sqrt(-2 * std::log1p(-Uniform()));
    factor = std::exp(mu_ + sigma_ * radius * std::cos(2 * std::numbers::pi * Uniform()));
  }
  return std::llround(mean_ns_ * factor);
}

}  // namespace spillway::unit
