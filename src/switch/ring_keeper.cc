// SPDX-License-Identifier: Apache-2.0
#include "ring_keeper.h"

#include "mapped_array.h"

namespace spillway::switching {
namespace {

// Ticks since `then`, in 16-bit arithmetic; a `then` from the near future counts as now.
uint32_t TicksSince(uint16_t then, uint32_t tick) {
  uint16_t age = static_cast<uint16_t>(spw_slot_tick(tick) - then);
  return age > 0xfff0 ? 0 : age;
}

void Settle(spw_ring_slot& slot) {
  Store(slot.owner, slot.next);
  Store(slot.entryless_tick, uint16_t{0});  // kept only while moved
}

}  // namespace

void FillRing(spw_ring_slot* slots, const std::vector<uint16_t>& next) {
  for (size_t i = 0; i < next.size(); i++) slots[i] = {next[i], next[i], 0, 0};
}

RingTally MoveRing(spw_ring_slot* slots, uint32_t count, const std::vector<uint16_t>& next, uint32_t tick,
                   const IsAlive& is_alive) {
  RingTally tally;
  for (uint32_t i = 0; i < count; i++) {
    spw_ring_slot& slot = slots[i];
    uint16_t wanted = next.empty() ? slot.next : next[i];
    if (slot.next != wanted) {
      // The idle time starts now; the data plane keeps the tick from here on.
      if (slot.owner == slot.next) Store(slot.entryless_tick, spw_slot_tick(tick));
      Store(slot.next, wanted);
      tally.changed++;
    }
    if (slot.owner != slot.next && !is_alive(slot.owner)) Settle(slot);
    tally.moved += slot.owner != slot.next;
  }
  return tally;
}

RingTally SettleRing(spw_ring_slot* slots, uint32_t count, uint32_t tick, uint32_t idle_ticks,
                     uint32_t entry_idle_ticks, const IsAlive& is_alive) {
  RingTally tally;
  for (uint32_t i = 0; i < count; i++) {
    spw_ring_slot& slot = slots[i];
    if (slot.owner != slot.next) {
      if (TicksSince(Load(slot.entryless_tick), tick) > idle_ticks || !is_alive(slot.owner)) {
        Settle(slot);
        tally.changed++;
      } else {
        tally.moved++;
      }
    }
    uint16_t seen = Load(slot.deviating_tick);
    // The data plane marks a slot before it writes the entry, so a mark that is old has no live entry.
    if (seen != 0 && TicksSince(seen, tick) > entry_idle_ticks)
      Replace(slot.deviating_tick, seen, uint16_t{0});
  }
  return tally;
}

}  // namespace spillway::switching
