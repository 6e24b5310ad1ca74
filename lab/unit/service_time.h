// SPDX-License-Identifier: Apache-2.0
// Service times from a distribution. The same seed gives the same times on any machine (the standard
// library's distributions do not promise that). Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace spillway::unit {

enum class Distribution { kConstant, kExponential, kLognormal };

class ServiceTime {
 public:
  // cv: standard deviation over mean, for kLognormal only (0: constant).
  ServiceTime(Distribution distribution, std::chrono::nanoseconds mean, double cv, std::uint64_t seed);

  [[nodiscard]] std::int64_t NextNs();

 private:
  [[nodiscard]] double Uniform();  // in [0, 1)

  Distribution distribution_;
  double mean_ns_;
  double mu_ = 0, sigma_ = 0;
  std::mt19937_64 random_;
};

}  // namespace spillway::unit
