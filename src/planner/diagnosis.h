// SPDX-License-Identifier: Apache-2.0
// Why an answer is what it is: which limit stands in the way of none, or of a better one. Pure.
#pragma once

#include <optional>
#include <vector>

#include "planner/search.h"

namespace spillway::planner {

// A limit that would have to give way.
struct Obstacle {
  Limit limit = Limit::kSlowdown;
  double factor = 1;  // by which it must be exceeded, while all others hold
  FrontPoint mix;     // that would do then: the best of those that exceed it so far
  Check check;        // what it needs of the limit
};

// Of a question without an answer: the limits any one of which, exceeded, gives one; the least first.
// Empty: no single limit is at fault. Exact: every factor is one that some candidate needs.
[[nodiscard]] std::vector<Obstacle> FindObstacles(const ClusterModel& model, Objective objective,
                                                  const SearchHooks& hooks = {});

// If no single limit is at fault: the least factor by which all may be exceeded together so that some mix
// does, and that mix's broken limits as checks.
struct Conflict {
  double factor = 1;
  FrontPoint mix;
  std::vector<Check> broken;
};
[[nodiscard]] std::optional<Conflict> FindConflict(const ClusterModel& model, Objective objective,
                                                   const SearchHooks& hooks = {});

// A limit that, exceeded by a tenth, allows a better answer.
struct Binding {
  Limit limit = Limit::kSlowdown;
  double saving = 0;  // share of the objective, 0..1
};
// The greatest saving first. Empty: no limit binds.
[[nodiscard]] std::vector<Binding> FindBinding(const ClusterModel& model, Objective objective,
                                               const FrontPoint& best, const SearchHooks& hooks = {});

}  // namespace spillway::planner
