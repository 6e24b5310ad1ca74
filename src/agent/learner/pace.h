// SPDX-License-Identifier: Apache-2.0
// How fast a unit answers, learnt from the request meter's counters: its pace while requests wait, and what
// it answers in the long run. Pure: time is an argument. Not thread-safe.
#pragma once

#include <array>
#include <chrono>

#include "bpf/meter.h"

namespace spillway::agent {

class Pace {
 public:
  using Time = std::chrono::nanoseconds;

  // Between two looks, at `then` and `now`. keep: what is kept of the best throughput over that time. cpus:
  // that answers leave on.
  void Learn(Time now, const spw_meter_counts& before, const spw_meter_counts& after, double cpus,
             double keep);

  struct Slot {
    double ns = 0;
    bool guessed = false;  // too few requests have waited
  };
  // Time over answers while a request waited behind them, of the requests that found the longest backlogs, as
  // far down as there are enough answers; where too few have waited of late, as it was when enough had.
  // alone_ns: what a request brings if none ever waited.
  Slot Now(double alone_ns) const;
  // No slot is longer: the unit has been seen to answer more than that in the long run.
  double LongestSlotNs() const;

 private:
  struct Waited {
    double answers = 0, busy_ns = 0;
  };
  Waited Longest() const;
  void LearnWaits(const spw_meter_counts& before, const spw_meter_counts& after, double cpus);
  void LearnThroughput(Time now, double answers);

  std::array<Waited, SPW_METER_BINS> waited_{};  // by the backlog found; fade
  double known_ns_ = 0;                          // the last pace that enough answers told
  double window_answers_ = 0;
  Time window_began_{0};
  double peak_per_ns_ = 0;  // answers, over the best window of late
};

}  // namespace spillway::agent
