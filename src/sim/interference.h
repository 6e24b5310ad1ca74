// SPDX-License-Identifier: Apache-2.0
// What keeps a unit from working at its speed (stalls, pauses, neighbours, drift), in simulated time: one
// unit's Interference, with phases and draws of its own. Times are ns since the run began and do not go back.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/random.h"
#include "sim/scenario/scenario.h"

namespace spillway::sim {

class Interferer {
 public:
  Interferer(const Interference& interference, uint64_t seed);

  // How much later than it could a request begins; woken: its worker slept before.
  int64_t Pause(bool woken);
  // How many times as long the work of a request that begins at `start` takes. It is taken at the begin and
  // holds for the whole request: requests are taken to be short beside the changes.
  double Slowdown(int64_t start);
  // Since when the regular neighbour that is here at `start` has been; nullopt: there is none.
  std::optional<int64_t> NeighbourSince(int64_t start) const;
  // The end of the stall that `time` is in, or `time`; the beginning of the next stall after it.
  int64_t AfterStall(int64_t time) const;
  int64_t NextStall(int64_t time) const;
  bool FailsAt(int64_t time) const {
    return time >= interference_.fails_fast.from.count() && time < interference_.fails_fast.until.count();
  }
  int64_t fails_after() const { return interference_.fails_fast.after.count(); }

 private:
  int64_t IntoStallCycle(int64_t time) const;

  const Interference& interference_;
  Random pauses_, neighbour_;  // streams apart: how many requests came must not move the neighbour
  int64_t stall_phase_ = 0;
  double drift_phase_ = 0;
  int64_t neighbour_phase_ = 0;  // of a regular one
  bool neighbour_here_ = true;   // until 0, when the first gap begins
  double neighbour_until_ = 0;
};

}  // namespace spillway::sim
