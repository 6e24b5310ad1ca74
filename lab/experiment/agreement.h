// SPDX-License-Identifier: Apache-2.0
// Whether the simulator says what the lab measured: by point, and by the order of policies. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "findings.h"

namespace spillway::lab {

struct Agreement {
  static constexpr double kFactor = 1.5;  // of p99, up or down: within it they agree

  struct Deviation {
    std::string policy;
    double load_pct = 0;
    double ratio = 1;  // measured p99 over predicted
  };
  // Two policies at one load; `lower` had the lower p99 as measured, and has not as predicted.
  struct Reversal {
    double load_pct = 0;
    std::string lower, higher;
  };

  size_t points = 0;  // rows with a prediction
  std::vector<Deviation> deviations;
  size_t pairs = 0;  // of policies at a load whose measured p99 differ by more than kFactor
  std::vector<Reversal> reversals;

  [[nodiscard]] size_t within() const { return points - deviations.size(); }
  [[nodiscard]] size_t in_order() const { return pairs - reversals.size(); }
};

// Measured over predicted p99; nullopt: nothing was predicted. Two time-outs are equal.
std::optional<double> P99OverPredicted(const Row& row);

// nullopt: nothing was predicted.
std::optional<Agreement> AgreementOf(const std::vector<Row>& rows);

// "p99 within a factor of 1.5 at 17 of 20 points ...", a line each.
std::string AgreementText(const Agreement& agreement);

}  // namespace spillway::lab
