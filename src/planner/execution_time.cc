// SPDX-License-Identifier: Apache-2.0
#include "planner/execution_time.h"

#include <algorithm>

namespace spillway::planner {

double Scaled(double share, double baseline, double now) { return share == 0 ? 0 : share * baseline / now; }

double AcceleratorTime(const TimeShares& shares, bool overlap, double compute_ratio, double network_ratio,
                       double traffic_growth) {
  const double compute = shares.accelerator * compute_ratio;
  const double factor = network_ratio * traffic_growth;
  if (overlap) return std::max(compute, (shares.accelerator + shares.stall) * factor);
  return compute + shares.stall * factor;
}

double CpuShareBehind(double mu, double phi, double cpu_slowdown) {
  return (mu * phi - 1) / (cpu_slowdown - 1);
}

double SlowdownAt(double cpu_share, double phi, double cpu_slowdown) {
  return (cpu_slowdown * cpu_share + (1 - cpu_share)) / phi;
}

}  // namespace spillway::planner
