// SPDX-License-Identifier: Apache-2.0
#include "planner/training_traffic.h"

#include <algorithm>

namespace spillway::planner {

double AllReduceGb(double gradient_gb, double nodes) { return 2 * (nodes - 1) * gradient_gb; }

double AllReduceGrowth(double baseline_nodes, double nodes) {
  return AllReduceGb(1, nodes) / AllReduceGb(1, baseline_nodes);
}

double MiniBatches::PerS() const { return std::min(WantedPerS(), NetworkAllowsPerS()); }
double MiniBatches::Utilisation() const { return PerS() / WantedPerS(); }

}  // namespace spillway::planner
