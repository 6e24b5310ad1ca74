// SPDX-License-Identifier: Apache-2.0
// The exact solver CBC (COIN-OR branch and cut), run as a program of its own: Spillway neither links nor
// needs it, but for `spillway sched optimal`. Debian: coinor-cbc.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace spillway::scheduler {

struct CbcSolution {
  bool in_time = true;  // false: it is not proven, and nothing else is said
  bool feasible = false;
  double objective = 0;
  std::vector<std::string> ones;  // variables that are 1
};

// Solves a program in LP format to proven optimality, within so many seconds of CPU time. Errors:
// kUnavailable where there is no cbc, kSystem where it fails, kBadInput where TMPDIR names no folder.
[[nodiscard]] Result<CbcSolution> SolveWithCbc(const std::string& lp, int seconds);

}  // namespace spillway::scheduler
