// SPDX-License-Identifier: Apache-2.0
// A question to the planner with its answer and all that explains it. Pure.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "planner/diagnosis.h"
#include "planner/search.h"
#include "planner/sensitivity.h"

namespace spillway::planner {

struct Found {
  const ClusterModel& model;
  Objective objective;
  Answer answer;
  double search_s = 0;  // of the search alone
  std::vector<Binding> binding;
  std::vector<Influence> influences;
  std::vector<Obstacle> obstacles;  // of a question without an answer
  std::optional<Conflict> conflict;
  // By hooks.stop. The best is then the best of those that were looked at, none if there was no such yet;
  // what explains it is left out.
  bool is_interrupted = false;
};

// now(): seconds, for search_s.
[[nodiscard]] Found Inquire(const ClusterModel& model, Objective objective, bool with_sensitivity,
                            const SearchHooks& hooks, const std::function<double()>& now);

}  // namespace spillway::planner
