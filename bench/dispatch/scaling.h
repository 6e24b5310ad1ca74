// SPDX-License-Identifier: Apache-2.0
// How an engine's throughput grows with the threads at it: as many producers as workers, who do nothing with
// an event; and one producer whose workers serve each event for a while. Not thread-safe.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "bench/dispatch/crowd.h"

namespace spillway::bench {

struct ScalingRow {
  RigKind kind;
  size_t producers = 1, workers = 1;
  int service_ns = 0;
  size_t burst = 32;

  std::vector<double> mevents_per_s;  // of each round
  bool dead = false;                  // the machine lacks the engine
};

// For a machine of so many CPUs: a thread has one of its own, and one is left. Empty below four.
[[nodiscard]] std::vector<ScalingRow> ScalingRows(size_t cpus);

// Another round. Errors: kSystem when the engine lost events, or handed one out twice.
[[nodiscard]] Result<void> MeasureScaling(ScalingRow& row, std::chrono::milliseconds duration);

// part "scaling", engine, kind, producers, workers, burst, service_ns, mevents_per_s (_min, _max), and with
// service of_ideal: its share of workers / service_ns.
[[nodiscard]] nlohmann::ordered_json ToJson(const ScalingRow& row);

}  // namespace spillway::bench
