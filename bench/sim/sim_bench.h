// SPDX-License-Identifier: Apache-2.0
// How fast the simulator is: requests of simulated traffic per second and core, on a pool of 256 servers and
// 1,024 units, beside the floor of drawing the same arrivals, hashes and service times and doing nothing with
// them. And how much memory ten times the requests take. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "report/document.h"
#include "report/table.h"

namespace spillway::bench {

struct SimBenchOptions {
  int rounds = 5;
  uint64_t requests = 2'000'000;  // per run
};

// Rows: server_policy, unit_policy, reports, units, requests, mreq_per_s (median of the rounds),
// mreq_per_s_best, ns_per_request, floor_ns, grown_mib (resident memory of a run of ten times the requests
// beyond that of one). Ratio slowest_mreq_per_s.
[[nodiscard]] report::Document RunSimBench(
    const SimBenchOptions& options,
    const std::function<void(double fraction, const std::string& message)>& on_progress);

[[nodiscard]] report::Table MakeSimTable(const report::Document& document);

}  // namespace spillway::bench
