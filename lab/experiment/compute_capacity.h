// SPDX-License-Identifier: Apache-2.0
// How many requests per second a unit that computes can answer, from how it takes a few and then a high
// load. Not from losses: a small machine's noise disturbs those more. Pure but for `load`.
#pragma once

#include <chrono>
#include <functional>

#include "base/error.h"
#include "client.h"

namespace spillway::lab {

struct MeteredSample {
  Sample sample;
  std::chrono::nanoseconds cpu_time{};  // that the unit used meanwhile; read for units with a quota only
};

// Puts the unit alone under load, open-loop, and waits until all is answered or given up.
using LoadAt = std::function<Result<MeteredSample>(double rate, double seconds)>;

// With a quota: CPU time per second over CPU time per answer; without: workers over an answer's time. In
// neither case more than `cpus`, or the unit's workers, can work at a time. `seconds`: of load per run, at
// least; slow units get longer. Errors: load's, and kSystem where nothing is answered.
[[nodiscard]] Result<double> ComputeCapacity(const UnitSpec& unit, size_t cpus, double seconds,
                                             const LoadAt& load);

// Open-loop rate and duration that show a unit's unloaded latency: a tenth of what it can do, for at least
// some requests.
struct Pace {
  double rate, seconds;
};
[[nodiscard]] Pace UnloadedPace(double capacity_rps, double seconds);

}  // namespace spillway::lab
