// SPDX-License-Identifier: Apache-2.0
// Floating-point work and nothing else: a chain of products of small matrices that stay in the first-level
// cache. Thread-safe.
#pragma once

#include <array>

#include "computation.h"

namespace spillway::compute {

struct SyntheticSettings {
  double gflop = 1;  // per request, at cost 1: thousand millions of multiplications and additions
};

class Synthetic : public Computation {
 public:
  static constexpr std::size_t kSide = 32;
  static constexpr double kFlopPerStep = 2.0 * kSide * kSide * kSide;

  Synthetic(const SyntheticSettings& settings, std::uint64_t seed);

  std::uint64_t Answer(std::size_t worker, std::uint32_t question, std::uint32_t cost_milli,
                       const std::stop_token& stop) override;

  // Steps that a request takes: the nearest whole number, at least 1 unless cost_milli is 0.
  [[nodiscard]] std::uint64_t Steps(std::uint32_t cost_milli) const;

  struct alignas(64) Matrix {
    std::array<float, kSide * kSide> at;
  };
  // out = a b. Of several implementations the widest that this CPU has.
  using Multiply = void (*)(const Matrix& a, const Matrix& b, Matrix& out);
  [[nodiscard]] static Multiply WidestMultiply();

 private:
  const double gflop_;
  const std::uint64_t seed_;
  const Multiply multiply_;
  Matrix transition_;
};

}  // namespace spillway::compute
