// SPDX-License-Identifier: Apache-2.0
// What a unit knows of its own load: requests in flight (RIF), and the latency of recent ones by how many
// they found (Prequal, NSDI 2024). Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "sim/station.h"

namespace spillway::sim {

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

}  // namespace spillway::sim
