// SPDX-License-Identifier: Apache-2.0
// What one switch has placed on each unit and the unit's newest report cannot contain yet. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/event_queue.h"
#include "sim/station.h"

namespace spillway::sim {

class Unreported {
 public:
  Unreported(size_t units, Time wire) : wire_(wire), placed_(units) {}

  void Place(uint32_t unit, Time now) { placed_[unit].Push(now); }
  // A report was made then: what had arrived is in it.
  void Report(uint32_t unit, Time made) {
    while (!placed_[unit].empty() && placed_[unit].front() + wire_ <= made) placed_[unit].Pop();
  }
  uint32_t On(uint32_t unit) const { return static_cast<uint32_t>(placed_[unit].size()); }

 private:
  const Time wire_;
  std::vector<EventQueue<Time>> placed_;
};

}  // namespace spillway::sim
