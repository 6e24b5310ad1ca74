// SPDX-License-Identifier: Apache-2.0
// spillway bench dispatch: the dispatcher's engines beside bare rings and concurrent queues, one producer and
// one worker, rounds over all rows. And the guideline table: what kinds, bursts, wait modes and priorities
// cost on this machine (DLB paper, ISCA 2025, its guidelines). Not thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "bench/dispatch/energy.h"
#include "report/document.h"

namespace spillway::bench {

struct DispatchBenchOptions {
  int rounds = 5;
  std::chrono::milliseconds duration{100};  // of one throughput run; latency runs take as long
  bool quick = false;                       // a tenth of the duration, two rounds
  PowerBaseline power;                      // of the energy row
  std::vector<std::string> only;            // rows whose "engine kind" or `varied` begins so; empty: all
};

using OnDispatchProgress = std::function<void(double fraction, const std::string& message)>;

// Rows: part ("engines" or "guideline"), engine, kind, burst, varied (guideline: what was changed),
// mevents_per_s (median of the rounds; also _min, _max), ns_per_event, enqueue_cycles (per event at 50 %
// load), cpu_s_per_mevent (at full load; producer_cpu_s_per_mevent its producer's), p50_us, p99_us, p999_us
// (at 50 % of the row's own throughput in its first round), light_p50_us and light_p99_us (one event every 10
// us, bursts of 1), achieved (of the rate asked for at 50 %), package_joules_per_mevent (RAPL, where it is
// readable). One row of part "energy" (energy.h), if both its rows ran. Rows of part
// "scaling" (scaling.h), on four CPUs or more; `only` knows them as "scaling engine kind". Ratios:
// native_atomic_over_event_dsw
// ..., by medians at burst 32. Errors: kSystem when an engine lost or reordered an event; an engine that the
// machine lacks has no rows.
[[nodiscard]] Result<report::Document> RunDispatchBench(const DispatchBenchOptions& options,
                                                        const OnDispatchProgress& on_progress);

}  // namespace spillway::bench
