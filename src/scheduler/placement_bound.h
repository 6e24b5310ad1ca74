// SPDX-License-Identifier: Apache-2.0
// How much of a cluster can be allocated at best when jobs come and stay: a proven upper bound, per order of
// arrival. Pure.
//
// Weak duality: give each kind of job a price. The jobs that a packing holds are together worth no more than
// the dearest sets that fit into all the nodes (PatternPrices), so their milli are at most that plus, for
// each job, milli less price. Any prices prove a bound; those that prove a low one are found by descent. Host
// memory is left out, and fractions of jobs may be packed: both can only raise the bound.
#pragma once

#include <vector>

#include "scheduler/cluster.h"

namespace spillway::scheduler {

struct PlacementBound {
  // % of the cluster's milli: of any packing of any of the jobs, chosen in hindsight.
  double any_pct = 100;
  // Of any policy that refuses no job that fits somewhere at the time, however it places them. As nothing
  // leaves, a job that fits nowhere fits nowhere later, and what asks for more of everything does not fit
  // either: so the jobs of a kind are placed up to some moment and not after it, and smaller kinds at least
  // as long.
  double willing_pct = 100;
};

// Finds bounds for one order of jobs after another, each from the prices of the one before.
class BoundFinder {
 public:
  BoundFinder(const std::vector<Node>& nodes, size_t models) : nodes_(nodes), models_(models) {}
  [[nodiscard]] PlacementBound Find(const std::vector<Job>& order);

 private:
  double Descend(const std::vector<Job>& order, bool willing, std::vector<double>& prices) const;

  std::vector<Node> nodes_;
  size_t models_;
  std::vector<double> any_prices_, willing_prices_;
};

}  // namespace spillway::scheduler
