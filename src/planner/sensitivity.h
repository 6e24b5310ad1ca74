// SPDX-License-Identifier: Apache-2.0
// Which input, changed by a tenth, moves the answer most. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search.h"

namespace spillway::planner {

struct Influence {
  std::string input;  // "price of ipu-e2000", "share of cpu", "limit of slowdown"
  // The best objective relative to the unchanged one, minus 1, with nine tenths and eleven tenths of the
  // input. None: no mix meets the limits then.
  std::optional<double> less, more;
  bool other_mix = false;  // the best mix is another one in at least one of the two

  double Greatest() const;  // of the two, by size; infinite where there is none
};

// The greatest first. Shares of time stay shares: the others give way in proportion.
[[nodiscard]] std::vector<Influence> FindInfluences(const PlanInput& input, Objective objective,
                                                    const FrontPoint& best, const SearchHooks& hooks = {});

}  // namespace spillway::planner
