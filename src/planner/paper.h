// SPDX-License-Identifier: Apache-2.0
// The figures of the papers behind the planner, recomputed by the planner's own models: Lovelock's (L1-L13),
// Conspirator's cost table (C5), P4Mite's capacities (P7). Pure.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "planner/catalogue.h"

namespace spillway::planner {

// How a printed figure is meant.
enum class Meaning {
  kEqual,    // to its printed digits
  kOver,     // the value must exceed it
  kAtMost,   // the value must not exceed it
  kAtLeast,  // a bound: the value, an upper estimate, must reach it
};

struct PaperRow {
  std::string id;                                           // "L4"
  std::string claim;                                        // what is claimed, and where
  std::string paper;                                        // as printed, without its unit: "1.22"
  double value = std::numeric_limits<double>::quiet_NaN();  // NaN: cannot be computed
  bool match = false;
  std::string reason;   // why it differs; or what is noteworthy although it matches
  std::string formula;  // with its inputs
};

// `value` rounds (half away from zero) to the digits of `printed`, or relates to it as meant.
[[nodiscard]] bool Matches(const std::string& printed, double value, Meaning meaning);

// The shortest decimal in [low, high].
[[nodiscard]] double SimplestIn(double low, double high);

// `catalogue`: holds the papers' hardware under the names of the shipped one.
[[nodiscard]] std::vector<PaperRow> RecomputePaper(const Catalogue& catalogue);

}  // namespace spillway::planner
