// SPDX-License-Identifier: Apache-2.0
// What is known of a unit's load: by itself, and by a switch beyond the unit's newest report.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/event_queue.h"
#include "sim/station.h"

namespace spillway::sim {

// What a unit knows of its own load: requests in flight (RIF), and the latency of recent ones by how many
// they found (Prequal, NSDI 2024). Not thread-safe.
class UnitHistory {
 public:
  uint32_t rif() const { return rif_; }
  // Returns the RIF that the request found.
  uint32_t Come() { return rif_++; }
  void Answer(uint32_t found, Time latency) {
    rif_--;
    recent_[answered_++ % kRecent] = {found, latency};
  }
  // The median latency of the recent answers whose RIF at arrival was nearest to this one; 0: none.
  Time LatencyAt(uint32_t rif) const;

 private:
  // Answers: some of each RIF of a busy moment, and all of them of late.
  static constexpr size_t kRecent = 64;
  struct Past {
    uint32_t found = 0;
    Time latency = 0;
  };
  std::array<Past, kRecent> recent_;
  uint64_t answered_ = 0;
  uint32_t rif_ = 0;
};

// What one switch has placed on each unit and the unit's newest report cannot contain yet. Not thread-safe.
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
