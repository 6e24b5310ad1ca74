// SPDX-License-Identifier: Apache-2.0
#include "plan_notes.h"

#include <fmt/format.h>

#include <set>

namespace spillway::switching {
namespace {

std::vector<std::string> OverrideNotes(const Plan& plan, const Ledger& ledger) {
  std::vector<std::string> notes;
  for (const PlannedUnit& u : plan.units) {
    const std::string name = UnitName(u.pool, u.server, u.unit);
    if (!ledger.status.contains(name)) continue;
    const spw_unit_status in_file = StatusInFile(plan.config, u.pool, u.server, u.unit);
    if (u.status != in_file)
      notes.push_back(fmt::format("{} stays {}, as set by an operator; the file says {}", name,
                                  model::ToString(u.status), model::ToString(in_file)));
  }
  return notes;
}

// Rings that another switch of the group, loaded with the same file now, would have of another size.
std::vector<std::string> RingSizeNotes(const Plan& plan) {
  std::vector<std::string> notes;
  for (const model::Service& service : plan.config.services) {
    const uint32_t wanted = RingSlots(*plan.config.FindPool(service.pool));
    for (const PlannedRing& ring : plan.rings)
      if (ring.service == service.name && ring.piece.slots != wanted)
        notes.push_back(
            fmt::format("service {} keeps its ring of {} slots, while a switch started afresh with this file "
                        "would make one of {}: the two place flows differently",
                        service.name, ring.piece.slots, wanted));
  }
  return notes;
}

// Units that an agent written by this file's list alone would take for others: units before them were removed
// while their server ran.
std::vector<std::string> UnitIndexNotes(const Plan& plan) {
  std::vector<std::string> notes;
  uint32_t place = 0;
  for (size_t i = 0; i < plan.units.size(); i++) {
    const PlannedUnit& unit = plan.units[i];
    const bool same_server = i > 0 && spw_unit_server(plan.units[i - 1].id) == spw_unit_server(unit.id);
    place = same_server ? place + 1 : 0;
    if (spw_unit_index(unit.id) != place)
      notes.push_back(fmt::format(
          "{} has index {} on this switch, as units of its server were removed; a switch started "
          "afresh with this file would give it {}: its agent's `unit` can be right for one of them only",
          UnitName(unit.pool, unit.server, unit.unit), spw_unit_index(unit.id), place));
  }
  return notes;
}

}  // namespace

std::vector<std::string> UnservedNotes(const Plan& plan) {
  std::set<std::string> served;  // pools
  for (const PlannedUnit& unit : plan.units)
    if (unit.status == SPW_UNIT_UP) served.insert(unit.pool);
  std::vector<std::string> notes;
  for (const model::Service& service : plan.config.services)
    if (!served.contains(service.pool))
      notes.push_back(
          fmt::format("service {} takes no new flows: no unit of pool {} is up", service.name, service.pool));
  return notes;
}

std::vector<std::string> HistoryNotes(const Plan& plan) {
  std::vector<std::string> notes = RingSizeNotes(plan);
  for (std::string& note : UnitIndexNotes(plan)) notes.push_back(std::move(note));
  return notes;
}

std::vector<std::string> ReportAddressNotes(const Plan& plan, const std::set<model::Address>& own) {
  const auto& report = plan.config.data_plane.report;
  if (!report || own.contains(report->address)) return {};
  for (const model::Service& service : plan.config.services)
    if (service.vip == report->address) return {};
  return {fmt::format(
      "switch.report.address {} is neither an address of this machine nor a VIP: agents' reports arrive "
      "only if the network routes them here",
      report->address.ToString())};
}

std::vector<std::string> NotesOf(const Plan& plan, const Ledger& ledger,
                                 const std::set<model::Address>& own) {
  std::vector<std::string> notes = UnservedNotes(plan);
  for (std::string& note : OverrideNotes(plan, ledger)) notes.push_back(std::move(note));
  for (std::string& note : HistoryNotes(plan)) notes.push_back(std::move(note));
  for (std::string& note : ReportAddressNotes(plan, own)) notes.push_back(std::move(note));
  return notes;
}

}  // namespace spillway::switching
