// SPDX-License-Identifier: Apache-2.0
// The exact solver CBC (COIN-OR branch and cut), run as a program of its own: Spillway neither links nor
// needs it, but for `spillway sched optimal`. Debian: coinor-cbc.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace spillway::scheduler {

struct CbcSolution {
  bool feasible = false;
  double objective = 0;
  std::vector<std::string> ones;  // variables that are 1
};

// Solves a program in LP format to proven optimality. Errors: kUnavailable where there is no cbc, kSystem
// where it fails or needs more than `seconds`, kBadInput where TMPDIR names no folder.
[[nodiscard]] Result<CbcSolution> SolveWithCbc(const std::string& lp, int seconds);

}  // namespace spillway::scheduler
