// SPDX-License-Identifier: Apache-2.0
// The workload of a run: when requests come, and how much work each brings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/random.h"
#include "sim/scenario/scenario.h"

namespace spillway::sim {

// When requests come: one run's arrivals, in ns since it began. Keeps a reference; not thread-safe.
class ArrivalTimes {
 public:
  ArrivalTimes(const Arrivals& arrivals, double rate_rps, uint64_t seed);
  int64_t Next();

 private:
  double OnOff();
  double Jump();

  const Arrivals& arrivals_;
  double gap_ns_, now_ = 0, lap_ = 0, scale_ = 0;
  size_t next_ = 0;
  uint64_t laps_ = 0;
  Random random_;
};

// Service multipliers with mean 1, drawn through a table of their quantile function: a draw costs a look-up
// instead of a logarithm, a root and an exponential. Between the table's points it is interpolated; the two
// outermost cells, where the function bends most, are drawn exactly.
class ServiceTimes {
 public:
  // cv: of the lognormal; bimodal: of that spread.
  ServiceTimes(Spread spread, double cv, const Bimodal& bimodal = {});
  double Draw(Random& random);
  // Of the next `requests` draws exactly the share is heavy, in an order that is as random as ever: where p99
  // lies just at the heavy ones, one more or less of them would decide on which side a policy is.
  void FixHeavyAmong(uint64_t requests);
  // E|X - 1|, from the closed form.
  double MeanDeviation() const { return mean_deviation_; }

 private:
  static constexpr int kBits = 12;
  double Quantile(double q) const;
  double AtNormal(double z) const;  // lognormal
  bool DrawHeavy(Random& random);

  Spread spread_;
  double sigma_ = 0;  // of the lognormal's logarithm; 0: every multiplier is 1
  double mean_deviation_ = 0;
  double heavy_share_ = 0, light_ = 1, heavy_ = 1;  // bimodal: multipliers
  uint64_t fixed_left_ = 0, heavy_left_ = 0;        // of FixHeavyAmong's draws
  std::vector<double> table_;                       // at q = i / 2^kBits; empty: constant
};

}  // namespace spillway::sim
