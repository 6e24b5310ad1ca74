// SPDX-License-Identifier: Apache-2.0
// How many requests per second are answered in time: by a testbed, found by trying, and by a unit that
// computes, from how it takes a few and then a high load. Pure but for what puts load on.
#pragma once

#include <chrono>
#include <functional>

#include "base/error.h"
#include "client.h"

namespace spillway::lab {

// The highest rate that a testbed sustains, by trying. Pure but for `sustains`.

// Whether enough is answered in time at this rate, in requests/s, over so many slices together.
using Sustains = std::function<Result<bool>(double rate, int slices)>;

inline constexpr double kSearchStep = 4;  // from one rate to the next until one is lost

struct SearchCare {
  double accuracy = 1.04;  // between the highest rate that was sustained and the lowest that was not
  int confirming_slices = 3;
  int losses = 2;            // slices in a row that must lose for a rate to count as lost
  double bad_moment = 1.12;  // sustained so far above what was found, the search goes on

  // Within so many percent. What need not be within 10 is looked at for a shorter time.
  [[nodiscard]] static SearchCare Within(double percent);
};

// From `first` up (or down, if that is not sustained), then halving the interval between what was sustained
// and what was not, on a logarithmic scale. One slice may be unlucky or lucky: a rate counts as lost when it
// was lost several times, and the answer is confirmed over several slices, else lowered, further each time,
// until it is. A bad moment of the machine may have lost a rate as often: then one that is a little above the
// answer is sustained, and the search goes on from there. Errors: of `sustains`; kSystem when nothing from 1
// to 10 million requests/s is sustained, or all, or when not even a quarter of what was found can be
// confirmed.
[[nodiscard]] Result<double> HighestSustained(double first, const SearchCare& care, const Sustains& sustains);

// How many requests per second a unit that computes can answer, from how it takes a few and then a high
// load. Not from losses: a small machine's noise disturbs those more. Pure but for `load`.

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
