// SPDX-License-Identifier: Apache-2.0
// A weighted mean that forgets, and leaps when what it measures has changed: a second mean, of an eighth
// of the memory, runs beside it; where it is off by more than a quarter, it takes over, since chance
// rarely does that. Pure; a plain value.
#pragma once

#include <algorithm>
#include <cmath>

namespace spillway::agent {

class FadingMean {
 public:
  // memory: weight after which an old value counts 1/e.
  explicit FadingMean(double memory) : memory_(memory) {}

  // Adds `sum` over `weight` (a sum of latencies over their number; a time over answers). Returns the
  // factor by which the mean leapt, 1 if it did not.
  double Add(double sum, double weight) {
    const auto fade = [&](Sums& sums, double memory) {
      const double keep = std::exp(-weight / memory);
      sums = {sums.sum * keep + sum, sums.weight * keep + weight};
    };
    fade(long_, memory_);
    fade(short_, memory_ / kShorter);
    if (!(long_.sum > 0) || short_.weight < memory_ / kShorter / 2) return 1;
    const double factor = short_.Mean() / long_.Mean();
    if (factor < 1 + kLeap && factor > 1 / (1 + kLeap)) return 1;
    long_ = short_;
    return factor;
  }
  void Scale(double factor) {
    long_.sum *= factor;
    short_.sum *= factor;
  }

  double mean() const { return long_.Mean(); }
  double recent() const { return short_.Mean(); }
  double weight() const { return long_.weight; }

 private:
  static constexpr double kShorter = 8, kLeap = 0.25;
  struct Sums {
    double sum = 0, weight = 0;
    double Mean() const { return weight > 0 ? sum / weight : 0; }
  };
  double memory_;
  Sums long_, short_;
};

}  // namespace spillway::agent
