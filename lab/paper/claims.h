// SPDX-License-Identifier: Apache-2.0
// The claims of P4Mite's figures 4a, 4b, 5a to 5c and 6 and of its tables I and II (ICNP 2022), and whether
// what the simulator and the lab found bears them out. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evidence.h"

namespace spillway::lab {

// What one side found about a claim.
struct PaperFinding {
  std::string figure;           // in words and numbers; empty: nothing
  std::optional<bool> matches;  // nullopt: nothing that could be compared
};

struct PaperRow {
  std::string id;      // "4a-order"
  std::string figure;  // "figure 4a", "table I"
  std::string claim, paper;
  PaperFinding simulator, lab;
  std::string reason;  // why one of them does not match or has nothing; empty: both match

  // Of the sides that have something to compare; nullopt: neither.
  [[nodiscard]] std::optional<bool> Matches() const;
};

// `lab`: nullptr where the lab was left out.
[[nodiscard]] std::vector<PaperRow> JudgePaper(const PaperFigures& simulator, const PaperFigures* lab);

}  // namespace spillway::lab
