// SPDX-License-Identifier: Apache-2.0
// Runs a scenario on all cores. The same scenario gives the same rows on any machine and with any
// number of threads: every run draws from its own seed, and all policies of a point meet the same
// arrivals and the same service times.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/run.h"
#include "sim/scenario/scenario.h"

namespace spillway::sim {

struct Row {
  std::string app, arrivals, reports, policy;
  double axis = 0;      // value of scenario.axis
  double rate_rps = 0;  // offered
  RunResult result;
  std::string tried;  // which of several tries this is, e.g. "threshold 1.5"; empty: the only one
};

struct SweepResult {
  std::vector<Row> rows;  // in the scenario's order
  double cpu_seconds = 0;
  uint64_t requests = 0;  // simulated, over all runs and tries
  bool interrupted = false;
};

// The same scenario with `requests` measured per run; apps' own figures and warm-ups change in proportion.
void Resize(Scenario& scenario, uint64_t requests);

// progress(done, total, what): after each run, from any thread, one at a time. stop(): asked between
// runs; true ends the sweep early, with the rows that are whole. threads 0: all cores.
using Progress = std::function<void(size_t done, size_t total, const std::string& what)>;
[[nodiscard]] SweepResult RunSweep(const Scenario& scenario, unsigned threads, const Progress& progress,
                                   const std::function<bool()>& stop);

}  // namespace spillway::sim
