// SPDX-License-Identifier: Apache-2.0
// A plan, written into the maps: the part of LiveSwitch that fills servers, units and rings, and empties
// those that a plan no longer names. LiveSwitch::Commit has the order.
#include <algorithm>
#include <cstring>
#include <set>

#include "clock.h"
#include "live_switch.h"
#include "mapped_array.h"
#include "ring_keeper.h"

namespace spillway::switching {

void LiveSwitch::WriteServers(const Plan& plan) {
  for (const PlannedServer& server : plan.servers) {
    spw_server& entry = plane_->servers[server.code];
    // A code that comes into use again must not show its predecessor's load.
    bool is_new = std::none_of(plan_.servers.begin(), plan_.servers.end(),
                               [&](const PlannedServer& old) { return old.code == server.code; });
    const bool found_running = adopted() && plan_.servers.empty();
    if (is_new && !found_running) Put(entry, spw_server{});
    Store(entry.silent_beats, plan.silent_beats);
    Store(entry.pool, __u32{server.pool});
  }
}

void LiveSwitch::WriteUnits(const Plan& plan) {
  for (const PlannedUnit& unit : plan.units) {
    spw_unit& entry = plane_->units[unit.id];
    auto words = unit.address.Words();
    if (!std::equal(words.begin(), words.end(), entry.addr) || entry.family != unit.address.family) {
      Store(entry.resolved, __u8{0});
      reach_.erase(unit.id);
      hops_.erase(unit.id);
      PutBytes(entry.addr, words.data(), sizeof(entry.addr));
      Store(entry.family, static_cast<__u8>(unit.address.family));
    }
    Store(entry.alive, static_cast<__u8>(unit.KeepsFlows()));
    Resolve(unit);
    WriteStatus(unit);
  }
}

bool LiveSwitch::IsKnownRing(const PlannedRing& ring) const {
  const auto known = ledger_.rings.find(ring.service);
  return known != ledger_.rings.end() && known->second.offset == ring.piece.offset;
}

// No endpoint names these slots yet.
void LiveSwitch::FillNewRings(const Plan& plan) {
  for (const PlannedRing& ring : plan.rings) {
    if (IsKnownRing(ring)) continue;
    std::vector<uint16_t> next = ring.next;
    next.resize(ring.piece.slots, SPW_NO_UNIT);
    FillRing(&plane_->ring_slots[ring.piece.offset], next);
  }
}

RingTally LiveSwitch::MoveKnownRings(const Plan& plan) {
  RingTally sum;
  uint32_t tick = NowTick();
  for (const PlannedRing& ring : plan.rings) {
    if (!IsKnownRing(ring)) continue;
    RingTally tally = MoveRing(&plane_->ring_slots[ring.piece.offset], ring.piece.slots, ring.next, tick,
                               [this](uint16_t unit) { return IsAlive(unit); });
    sum.changed += tally.changed;
    sum.moved += tally.moved;
  }
  return sum;
}

// Units of the last plan that this one does not name: their flows are placed anew from now on.
void LiveSwitch::RetireUnits(const Plan& plan) {
  std::set<uint16_t> named;
  std::set<uint32_t> servers;
  for (const PlannedUnit& unit : plan.units) named.insert(unit.id);
  for (const PlannedServer& server : plan.servers) servers.insert(server.code);
  for (uint32_t id = 0; id < plane_->units.size(); id++) {
    if (plane_->units[id].alive == 0 || named.contains(static_cast<uint16_t>(id))) continue;
    Store(plane_->units[id].alive, __u8{0});
  }
  for (uint32_t code = 0; code < plane_->servers.size(); code++) {
    spw_server& server = plane_->servers[code];
    bool gone = !servers.contains(code);
    for (uint32_t u = 0; u < SPW_UNITS_PER_SERVER; u++) {
      if (server.unit[u].status == SPW_UNIT_ABSENT || named.contains(spw_unit_id(code, u))) continue;
      StoreConfig(server.unit[u], {});
      Put(server.load[u], spw_unit_load{});
      __atomic_fetch_and(&server.failing, ~(1u << u), __ATOMIC_RELAXED);
      Written();
      hops_.erase(spw_unit_id(code, u));
      reach_.erase(spw_unit_id(code, u));
      ask_again_.erase(spw_unit_id(code, u));
      if (gone) plane_->WriteKey(code, std::nullopt, 0, {});
    }
  }
  // The rings may still have named a retired unit as owner while it lived.
  uint32_t tick = NowTick();
  for (const PlannedRing& ring : plan.rings) {
    MoveRing(&plane_->ring_slots[ring.piece.offset], ring.piece.slots, ring.next, tick,
             [this](uint16_t unit) { return IsAlive(unit); });
  }
}

}  // namespace spillway::switching
