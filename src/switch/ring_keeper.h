// SPDX-License-Identifier: Apache-2.0
// Carries a newly laid ring into the slots (core/ring.h) so that no established flow moves, and
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

using IsAlive = std::function<bool(uint16_t unit)>;

// First content of a ring.
void FillRing(spw_ring_slot* slots, const std::vector<uint16_t>& next);

// New default units. A slot's owner stays while it lives; a dead owner is replaced at once. An empty
// `next` (no unit is up) leaves the ring as it is.
RingTally MoveRing(spw_ring_slot* slots, uint32_t count, const std::vector<uint16_t>& next, uint32_t tick,
                   const IsAlive& is_alive);

// Gives moved slots to their next owner when no entry-less packet came for idle_ticks or the owner
// died, and clears the mark of flows with entries when none was seen for entry_idle_ticks.
RingTally SettleRing(spw_ring_slot* slots, uint32_t count, uint32_t tick, uint32_t idle_ticks,
                     uint32_t entry_idle_ticks, const IsAlive& is_alive);

}  // namespace spillway::switching
