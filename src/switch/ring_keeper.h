// SPDX-License-Identifier: Apache-2.0
// Carries a newly laid ring into a service's slots (core/ring.h) so that no established flow moves, and
// settles moved slots when their old flows have ended. Works on plain slots: testable without a
// kernel. Single writer of owner and next; the ticks are the data plane's.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/ring.h"

namespace spillway::switching {

struct RingTally {
  uint32_t changed = 0;  // slots whose next was changed
  uint32_t moved = 0;    // slots whose owner is not their next
};

// How long each slot of a ring has been moved, as SettleRing saw it.
class RingMoves {
 public:
  // Ticks since the slot was first seen moved.
  uint32_t Since(uint32_t slot, uint32_t tick);
  void End(uint32_t slot);

 private:
  std::vector<uint16_t> since_;  // slot ticks; 0: not moved
};

struct SettleTimes {
  uint32_t idle_ticks = 0;        // after which a flow of the ring has ended
  uint32_t entry_idle_ticks = 0;  // the same of every flow that may have an entry
  uint32_t displaced_tick = 0;    // last by which a flow that had an entry may have lost it; 0: none
};

using IsAlive = std::function<bool(uint16_t unit)>;

// First content of a ring.
void FillRing(spw_ring_slot* slots, const std::vector<uint16_t>& next);

// New default units. A slot's owner stays while it lives; a dead owner is replaced at once. An empty
// `next` (no unit is up) leaves the ring as it is.
RingTally MoveRing(spw_ring_slot* slots, uint32_t count, const std::vector<uint16_t>& next, uint32_t tick,
                   const IsAlive& is_alive);

// Gives moved slots to their next owner when for idle_ticks no entry-less packet came and no flow lost its
// entry, when they have been moved for twice that time whatever came, so that no flood keeps a drain from
// ending, or when the owner died. Clears the mark of flows with entries when none was seen for
// entry_idle_ticks.
RingTally SettleRing(spw_ring_slot* slots, uint32_t count, RingMoves& moves, uint32_t tick,
                     const SettleTimes& times, const IsAlive& is_alive);

}  // namespace spillway::switching
