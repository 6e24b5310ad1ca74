// SPDX-License-Identifier: Apache-2.0
// One run: an app at one rate under one policy, and which of its answers came too late. Pure: no clock, no
// files, no shared state; the same arguments give the same result.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/latencies.h"
#include "sim/scenario/scenario.h"

namespace spillway::sim {

struct RunSetup {
  const App* app = nullptr;
  const Arrivals* arrivals = nullptr;
  const Reports* reports = nullptr;
  const PolicyChoice* policy = nullptr;
  double rate_rps = 0;
  double work = 1;  // factor of every service time
  Duration wire{0};
  uint64_t requests = 0, warm_up = 0;
  uint32_t flows = 0;          // as in Scenario
  bool flows_in_turn = false;  // each after the other, as clients with so many sockets do; else at random
  // Of a service with affinity `none`: each request of a flow is placed anew, evenly over the ring.
  bool flows_are_spread = false;
  Duration rest{0};  // after the warm-up nothing comes for so long
  uint32_t switches = 1;
  uint64_t seed = 1;
  double loss_over_unloaded = 10;
  Duration silent_after{0};
  double threshold_try = 1;                 // one of policy->trigger.tries
  double wait_weight = 1, work_weight = 0;  // one of the omniscient's
  // Asked now and then; true ends the run, whose result is then `interrupted` and says nothing else.
  std::function<bool()> stop = {};
};

struct RunResult {
  bool interrupted = false;
  double p50_ms = 0, p99_ms = 0, p999_ms = 0, mean_ms = 0;  // of the answered, late ones included
  double loss = 0;        // share without an answer, or answered later than the limit
  double limit_ms = 0;    // an answer after this is late
  uint64_t requests = 0;  // measured
  uint64_t dropped = 0;   // never answered
  double simulated_s = 0;
  std::vector<double> share;  // of requests, by the units' index within their server (summed over servers)
  uint64_t reports_sent = 0, reports_lost = 0;
};

// Adds the latencies of the answered to `pool`, if there is one.
[[nodiscard]] RunResult Run(const RunSetup& setup, Latencies* pool = nullptr);
// So many runs, each with a seed of its own, the first with setup's: percentiles of all their answers, sums
// of what is counted, means of the shares.
[[nodiscard]] RunResult RunSeveral(const RunSetup& setup, uint32_t runs);

}  // namespace spillway::sim
