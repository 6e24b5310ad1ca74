// SPDX-License-Identifier: Apache-2.0
// What health checks found, carried into the data plane: the part of LiveSwitch that knows of ejections, and
// lays the rings without units that are out. Logs ejections and fail-open.
#include <fmt/format.h>

#include "clock.h"
#include "live_switch.h"
#include "mapped_array.h"
#include "ring_keeper.h"

namespace spillway::switching {
namespace {

// Laying the rings of a large pool takes a while, and checks may change their minds often: no more than this
// part of the time is spent on it. What waits is done by a later change or tick; the units' words never wait.
constexpr int kRelayShare = 10;

}  // namespace

void LiveSwitch::SetFailing(const std::vector<FailingUnit>& failing) {
  failing_.clear();
  for (const FailingUnit& unit : failing)
    failing_[UnitName(unit.pool, unit.server, unit.unit)] = {unit.since, unit.move};
  UpdateEjections();
}

std::vector<WitnessedUnit> LiveSwitch::SaidDead() const {
  std::vector<WitnessedUnit> said;
  const uint32_t beat = NowBeat();
  for (const PlannedUnit& unit : plan_.units) {
    const spw_server& server = plane_->servers[spw_unit_server(unit.id)];
    const UnitHealth health = HealthOf(server, spw_unit_index(unit.id), plane_->pools[server.pool], beat);
    if (health.failing && health.reason != FailingReason::kErrors && (health.taken_out || health.excused()))
      said.push_back({unit.pool, unit.server, unit.unit, {}, {}, {}});
  }
  return said;
}

void LiveSwitch::SetWitnessed(const std::vector<WitnessedUnit>& units) {
  // The clock is the data plane's.
  const auto beat_of = [](std::chrono::steady_clock::duration time) {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    return spw_beats(static_cast<uint64_t>(ns));
  };
  std::map<uint16_t, WitnessBeats> witnessed;
  for (const WitnessedUnit& unit : units)
    if (const PlannedUnit* const found = FindUnit(unit.pool, unit.server, unit.unit))
      witnessed[found->id] = {beat_of(unit.since.time_since_epoch()), beat_of(unit.last.time_since_epoch()),
                              beat_of(unit.pace)};
  health_.SetWitnessed(std::move(witnessed));
}

void LiveSwitch::KeepOutages(Plan& plan) const {
  std::map<std::string, const PlannedUnit*> known;
  for (const PlannedUnit& unit : plan_.units)
    if (unit.ejected || unit.unreachable) known.emplace(UnitName(unit.pool, unit.server, unit.unit), &unit);
  if (known.empty()) return;
  std::set<std::string> pools;
  for (PlannedUnit& unit : plan.units) {
    const auto found = known.find(UnitName(unit.pool, unit.server, unit.unit));
    if (found == known.end() || unit.status != SPW_UNIT_UP) continue;
    unit.ejected = found->second->ejected;
    unit.move = found->second->move;
    unit.unreachable = found->second->unreachable && found->second->address == unit.address;
    pools.insert(unit.pool);
  }
  RingLayer layer(plan);
  for (const model::Service& service : plan.config.services)
    if (pools.contains(service.pool)) LayRingOf(plan, layer, service);
}

void LiveSwitch::UpdateEjections() {
  bool changed = false;
  Ejection next =
      ChooseEjected(plan_.config, plan_.units, failing_, [this](uint16_t unit) { return IsReachable(unit); });
  for (PlannedUnit& unit : plan_.units) {
    const bool ejected = next.units.contains(unit.id);
    const bool move = ejected && failing_.at(UnitName(unit.pool, unit.server, unit.unit)).move;
    if (ejected == unit.ejected && move == unit.move) continue;
    unit.ejected = ejected;
    unit.move = move;
    Store(plane_->units[unit.id].alive, static_cast<__u8>(unit.KeepsFlows()));
    WriteStatus(unit);
    rings_due_.insert(unit.pool);
    changed = true;
  }
  // Agents take out half of the units that are left, at most.
  if (changed) health_.Look(plan_, &plane_->servers[0], &plane_->pools[0], NowBeat());
  NoteEjections(ejection_, next);
  ejection_ = std::move(next);
  RelayRings();
}

void LiveSwitch::NoteEjections(const Ejection& before, const Ejection& after) {
  for (const PlannedUnit& unit : plan_.units) {
    const bool was = before.units.contains(unit.id), is = after.units.contains(unit.id);
    if (was == is) continue;
    const std::string name = UnitName(unit.pool, unit.server, unit.unit);
    check_news_.push_back(!is ? CheckNews{name + " gets new flows again", false}
                          : unit.move
                              ? CheckNews{name + " gets no flows any more, and loses those that it has"}
                              : CheckNews{name + " gets no new flows any more"});
  }
  for (const auto& [service, now] : after.services) {
    const auto found = before.services.find(service);
    const ServiceEjection then = found == before.services.end() ? ServiceEjection{} : found->second;
    if (now.fail_open && !then.fail_open) {
      fail_opened_[service]++;
      check_news_.push_back(
          {fmt::format("service {}: every unit fails a check, of this service or another of its pool, or "
                       "cannot be reached, so none is taken out (fail-open)",
                       service)});
    } else if (!now.fail_open && then.fail_open) {
      check_news_.push_back({fmt::format("service {}: fail-open is over", service), false});
    } else if (now.failing > now.ejected && now.failing - now.ejected > then.failing - then.ejected) {
      check_news_.push_back(
          {fmt::format("service {}: {} of {} units fail, of which only {} are taken out: at most half",
                       service, now.failing, now.members, now.ejected)});
    }
  }
}

void LiveSwitch::RelayRings() {
  const auto began = std::chrono::steady_clock::now();
  if (rings_due_.empty() || began < relay_from_) return;
  const uint32_t tick = NowTick();
  RingLayer layer(plan_);
  for (const model::Service& service : plan_.config.services) {
    if (!rings_due_.contains(service.pool)) continue;
    const PlannedRing& ring = LayRingOf(plan_, layer, service);
    MoveRing(&plane_->ring_slots[ring.piece.offset], ring.piece.slots, ring.next, tick,
             [this](uint16_t unit) { return IsAlive(unit); });
  }
  rings_due_.clear();
  CountRings();
  const auto ended = std::chrono::steady_clock::now();
  relay_from_ = ended + (ended - began) * kRelayShare;
}

}  // namespace spillway::switching
