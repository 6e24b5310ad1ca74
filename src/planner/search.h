// SPDX-License-Identifier: Apache-2.0
// The cheapest mix, or the one of least energy, that meets every limit: the exact optimum over all
// candidates of search_space.h, and the front of cost against slowdown. Pure; no clock, no threads.
//
// Candidates are too many to ask one by one where several kinds of nodes are combined. A choice for one
// kind can be left out if another costs no more, draws no more and is no slower in every part, because
// everything that is asked of a mix grows with each of them. What is left is combined in full.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/cluster_model.h"

namespace spillway::planner {

enum class Objective { kCost, kEnergy };
[[nodiscard]] std::string ToString(Objective objective);

struct Question {
  Objective objective = Objective::kCost;
  // By Limit: how far each may be exceeded: 1 is the limit as it stands, infinity lifts it.
  Ratios slack = {1, 1, 1, 1, 1, 1, 1, 1};
  // Only mixes whose objective is at most this are of interest. Makes the search faster.
  std::optional<double> at_most;
  // Also those slower than the limit on slowdown: the whole front.
  bool front = false;  // `best` is then one of the front: of equal energies the fastest, not the cheapest
  bool any = false;    // any mix that meets the limits will do, not the best
};

struct FrontPoint {
  Mix mix;
  double objective = 0;  // USD, or energy as Evaluation::Energy
  double slowdown = 0;
};

struct Answer {
  // None: no candidate meets the limits. Of equal costs the fastest mix, of equal energies the cheapest.
  std::optional<FrontPoint> best;
  std::vector<FrontPoint> front;  // by rising objective; slowdown falls. Empty unless asked for
  uint64_t candidates = 0;        // that the answer holds for
  bool stopped = false;
};

// progress(share done); stop(): true ends the search with what was found. Both may be empty.
struct SearchHooks {
  std::function<void(double)> progress;
  std::function<bool()> stop;
};

[[nodiscard]] Answer Search(const ClusterModel& model, const Question& question,
                            const SearchHooks& hooks = {});

}  // namespace spillway::planner
