// SPDX-License-Identifier: Apache-2.0
// What the running data plane looks like from outside: the part of LiveSwitch that API and metrics ask.
#include <algorithm>

#include "clock.h"
#include "live_switch.h"
#include "mapped_array.h"

namespace spillway::switching {

// Shares: mean, over the rings of each pool's services, of the part of slots that name a unit.
void LiveSwitch::CountRings() {
  std::map<std::string, int> rings_of;
  std::map<std::string, std::string> pool_of;
  for (const auto& service : plan_.config.services) {
    rings_of[service.pool]++;
    pool_of[service.name] = service.pool;
  }
  ring_shares_.clear();
  slots_moved_.clear();
  std::vector<uint32_t> named(SPW_MAX_UNITS);  // beyond: no unit
  for (const PlannedRing& ring : plan_.rings) {
    std::fill(named.begin(), named.end(), 0);
    uint32_t& moved = slots_moved_[ring.service];
    for (uint32_t i = 0; i < ring.piece.slots; i++) {
      const spw_ring_slot& slot = plane_->ring_slots[ring.piece.offset + i];
      moved += slot.owner != slot.next;
      if (slot.next < named.size()) named[slot.next]++;
    }
    const double part = 1.0 / ring.piece.slots / rings_of[pool_of[ring.service]];
    for (const PlannedUnit& unit : plan_.units)
      if (named[unit.id] != 0) ring_shares_[unit.id] += part * named[unit.id];
  }
}

std::vector<UnitView> LiveSwitch::Units() const {
  std::vector<UnitView> views;
  uint32_t beat = NowBeat();
  for (const PlannedUnit& unit : plan_.units) {
    const spw_server& server = plane_->servers[spw_unit_server(unit.id)];
    uint32_t index = spw_unit_index(unit.id);
    spw_unit_load load = server.load[index];
    spw_traffic traffic = plane_->ReadUnitTraffic(unit.id);
    UnitView view;
    view.pool = unit.pool;
    view.server = unit.server;
    view.unit = unit.unit;
    view.id = unit.id;
    view.kind = unit.kind;
    view.address = unit.address;
    view.capacity = unit.capacity;
    view.status = unit.status;
    view.ejected = unit.ejected;
    view.resolved = IsReachable(unit.id);
    view.silent = spw_unit_is_silent(&server, index, beat) != 0;
    view.busy = (load.flags & SPW_REPORT_BUSY) != 0;
    view.health = HealthOf(server, index, plane_->pools[server.pool], beat);
    if (view.health.failing) view.health.failing_ms = health_.FailingMs(unit.id, view.health, beat);
    view.level = load.level;
    view.queue = load.queue;
    view.assigned = load.assigned;
    view.latency_us = load.latency_us;
    view.base_us = load.base_us;
    view.knee_us = load.knee_us;
    view.tail_us = load.tail_us;
    view.slot_ns = load.slot_ns;
    if (load.report_beat != 0) {
      view.report_age_ms = static_cast<double>(spw_report_age(&load, beat)) * (1 << SPW_BEAT_SHIFT) / 1e6;
    }
    view.packets = traffic.packets;
    view.bytes = traffic.bytes;
    view.new_flows = traffic.new_flows;
    auto share = ring_shares_.find(unit.id);
    view.ring_share = share == ring_shares_.end() ? 0 : share->second;
    views.push_back(std::move(view));
  }
  return views;
}

std::vector<ServiceView> LiveSwitch::Services() const {
  std::vector<ServiceView> views;
  for (const model::Service& service : plan_.config.services) {
    ServiceView view{service};
    const Ledger::RingPiece& piece = ledger_.rings.at(service.name);
    view.ring_slots = piece.slots;
    if (const auto moved = slots_moved_.find(service.name); moved != slots_moved_.end())
      view.slots_moved = moved->second;
    spw_traffic traffic = plane_->ReadServiceTraffic(*ledger_.services.Find(service.name));
    view.packets = traffic.packets;
    view.bytes = traffic.bytes;
    view.new_flows = traffic.new_flows;
    if (const auto found = ejection_.services.find(service.name); found != ejection_.services.end()) {
      view.failing = found->second.failing;
      view.ejected = found->second.ejected;
      view.fail_open = found->second.fail_open;
    }
    if (const auto times = fail_opened_.find(service.name); times != fail_opened_.end())
      view.fail_opened = times->second;
    views.push_back(std::move(view));
  }
  return views;
}

FlowTableView LiveSwitch::FlowTable() const {
  FlowTableView view;
  view.capacity = uint64_t{plane_->flow_table.size()} * SPW_BUCKET_ENTRIES;
  view.used = sweeper_.used();
  view.sweep_age_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - last_round_).count();
  return view;
}

}  // namespace spillway::switching
