// SPDX-License-Identifier: Apache-2.0
// A plan put to the test: the baseline and the planned mix run through the simulator (src/sim), with the
// data plane's own decisions, beside what the plan says of them. Runs threads; reads no clock.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "planner/check/plan_scenario.h"
#include "sim/sweep.h"

namespace spillway::planner {

// One cluster under one policy.
struct Rehearsed {
  std::string cluster;  // "baseline", "plan"
  std::string policy;
  double rate_rps = 0;                        // at the workload's load
  double planned_rps = 0, simulated_rps = 0;  // what it can answer
  double planned_utilisation = 0, simulated_utilisation = 0;
  double planned_mean_ms = 0, simulated_mean_ms = 0, simulated_p99_ms = 0;
  double lost = 0;  // share, at the load
};

struct Rehearsal {
  std::vector<Rehearsed> rows;
  double planned_slowdown = 0;
  // By policy: what the baseline answers at most over what the plan does.
  std::vector<std::pair<std::string, double>> simulated_slowdown;
  bool interrupted = false;
};

// Mean latency in ms of requests that any of `workers` may serve, first come first served, Poisson arrivals:
// Erlang's C formula, with Lee and Longton's factor (1 + cv^2) / 2 for the wait. Utilisation must be < 1.
[[nodiscard]] double PooledLatencyMs(double workers, double service_ms, double utilisation, double cv);

// Both clusters get load x what the slower of the two can answer, and then more than they can answer.
[[nodiscard]] Rehearsal Rehearse(const ClusterModel& model, const Mix& mix, uint64_t requests,
                                 unsigned threads, const sim::Progress& progress = {},
                                 const std::function<bool()>& stop = {});

}  // namespace spillway::planner
