// SPDX-License-Identifier: Apache-2.0
// Measures a rig: how much goes through, and how long an event takes at a given rate. Producer and consumer
// are bound to two different cores, where the machine has them. Not thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "bench/dispatch/rig.h"

namespace spillway::bench {

inline constexpr size_t kMaxBurst = 64;  // events

struct Throughput {
  double mevents_per_s = 0;
  double cpu_s_per_mevent = 0;  // of producer, consumer and what else the engine runs
  double producer_cpu_s_per_mevent = 0;
};

struct Latency {
  double p50_us = 0, p99_us = 0, p999_us = 0;
  // Of the events in whose life the machine interrupted neither thread (measure.cc); and how many it did.
  double running_p99_us = 0, running_p999_us = 0, interrupted_pct = 0;
  double enqueue_cycles = 0;  // per event, by the time-stamp counter, in Put
  double achieved = 0;        // of the rate asked for
};

// Events come in bursts of `burst`, of 1,024 flows. Each is checked: none is lost, and, `in_order`, none
// overtakes another. Errors: kSystem when one is.
[[nodiscard]] Result<Throughput> MeasureThroughput(Rig& rig, size_t burst, bool in_order,
                                                   std::chrono::milliseconds duration);
// Ends early, `achieved` being less than 1, when it takes ten times as long as `duration`.
[[nodiscard]] Result<Latency> MeasureLatency(Rig& rig, size_t burst, double events_per_s,
                                             std::chrono::milliseconds duration);

// Binds the calling thread to the n-th core that this process may run on, if it may run on two.
void BindTo(int n);

// Cycles of the time-stamp counter per microsecond.
[[nodiscard]] double CyclesPerMicrosecond();

}  // namespace spillway::bench
