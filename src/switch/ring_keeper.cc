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
  for (size_t i = 0; i < next.size(); i++) Put(slots[i], {next[i], next[i], 0, 0});
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

uint32_t RingMoves::Since(uint32_t slot, uint32_t tick) {
  if (slot >= since_.size()) since_.resize(slot + 1);
  if (since_[slot] == 0) since_[slot] = spw_slot_tick(tick);
  return TicksSince(since_[slot], tick);
}

void RingMoves::End(uint32_t slot) {
  if (slot < since_.size()) since_[slot] = 0;
}

RingTally SettleRing(spw_ring_slot* slots, uint32_t count, RingMoves& moves, uint32_t tick,
                     const SettleTimes& times, const IsAlive& is_alive) {
  RingTally tally;
  // A tick that is ahead of this one is of another CPU's clock.
  const bool displaced = times.displaced_tick != 0 && static_cast<int32_t>(tick - times.displaced_tick) <=
                                                          static_cast<int32_t>(times.idle_ticks);
  for (uint32_t i = 0; i < count; i++) {
    spw_ring_slot& slot = slots[i];
    if (slot.owner != slot.next) {
      const bool waits = displaced || TicksSince(Load(slot.entryless_tick), tick) <= times.idle_ticks;
      const bool is_overdue = moves.Since(i, tick) > 2 * times.idle_ticks;
      if (!waits || is_overdue || !is_alive(slot.owner)) {
        Settle(slot);
        moves.End(i);
        tally.changed++;
      } else {
        tally.moved++;
      }
    } else {
      moves.End(i);
    }
    uint16_t seen = Load(slot.deviating_tick);
    // The data plane marks a slot before it writes the entry, so a mark that is old has no live entry.
    if (seen != 0 && TicksSince(seen, tick) > times.entry_idle_ticks)
      Replace(slot.deviating_tick, seen, uint16_t{0});
  }
  return tally;
}

}  // namespace spillway::switching
