// SPDX-License-Identifier: Apache-2.0
// How much of a cluster can be allocated at best when jobs come and stay: a proven upper bound, per order of
// arrival. Pure.
//
// Weak duality: give each kind of job a price. The jobs that a packing holds are together worth no more than
// the dearest sets that fit into all the nodes (PatternPrices), so their milli are at most that plus, for
// each job, milli less price. Any prices prove a bound; those that prove a low one are found by descent. Host
// memory is left out, and fractions of jobs may be packed: both can only raise the bound.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "scheduler/cluster.h"
#include "scheduler/fragmentation.h"

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

// Jobs are of one shape if they ask for the same. The time that bounds take grows with the number of shapes:
// half a minute for so many.
inline constexpr size_t kMaxBoundShapes = 2000;
[[nodiscard]] size_t ShapesIn(const std::vector<Job>& order);

// Finds bounds for one order of jobs after another, each from the prices of the one before.
class BoundFinder {
 public:
  BoundFinder(const std::vector<Node>& nodes, size_t models) : nodes_(nodes), models_(models) {}
  // Nothing where the jobs are of more than kMaxBoundShapes shapes, or once `stop` says so, which is asked
  // again and again.
  [[nodiscard]] std::optional<PlacementBound> Find(const std::vector<Job>& order,
                                                   const std::function<bool()>& stop = {});

 private:
  struct Prices {
    std::vector<JobKind> kinds;
    std::vector<double> of;
  };
  std::optional<double> Descend(const std::vector<Job>& order, bool willing, Prices& prices,
                                const std::function<bool()>& stop) const;

  std::vector<Node> nodes_;
  size_t models_;
  Prices any_prices_, willing_prices_;
};

}  // namespace spillway::scheduler
