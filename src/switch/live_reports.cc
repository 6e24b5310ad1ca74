// SPDX-License-Identifier: Apache-2.0
// The last load report heard of each unit: the part of LiveSwitch that keeps replays stale.
#include <fmt/format.h>

#include <set>

#include "live_switch.h"

namespace spillway::switching {
namespace {

constexpr size_t kMaxHeard = size_t{2} * SPW_MAX_UNITS;  // units that were and may come again included

std::string HeardPath(const Options& options) {
  return options.state_dir + "/" + options.instance + ".reports";
}

}  // namespace

void LiveSwitch::LoadHeardReports() { heard_ = LoadHeard(HeardPath(options_)); }

Result<void> LiveSwitch::WriteKeyOf(const Plan& plan, const PlannedServer& server, uint8_t forget) {
  DataPlane::Seen heard{};
  for (const PlannedUnit& unit : plan.units) {
    if (spw_unit_server(unit.id) != server.code) continue;
    const uint32_t index = spw_unit_index(unit.id);
    const std::string name = UnitName(unit.pool, unit.server, unit.unit);
    if ((forget >> index & 1) != 0) heard_.erase(name);
    if (const auto found = heard_.find(name);
        found != heard_.end() && server.key && found->second.key_tag == KeyTag(*server.key))
      heard[index] = found->second.last;
  }
  return plane_->WriteKey(server.code, server.key, server.units_mask, forget, heard);
}

void LiveSwitch::NoteHeard() {
  struct Heard {
    uint64_t key_tag;
    DataPlane::Seen seen;
  };
  std::map<uint32_t, Heard> servers;
  for (const PlannedServer& server : plan_.servers)
    if (server.key) servers[server.code] = {KeyTag(*server.key), plane_->ReadSeen(server.code)};
  for (const PlannedUnit& unit : plan_.units) {
    const auto found = servers.find(spw_unit_server(unit.id));
    if (found == servers.end()) continue;
    const auto& [key_tag, seen] = found->second;
    const spw_report_seen& last = seen[spw_unit_index(unit.id)];
    if (last.boot_id == 0 && last.sequence == 0) continue;
    HeardReport& kept = heard_[UnitName(unit.pool, unit.server, unit.unit)];
    if (kept.key_tag != key_tag || IsLater(last, kept.last)) kept = {key_tag, last};
  }
  if (heard_.size() <= kMaxHeard) return;
  std::set<std::string> named;
  for (const PlannedUnit& unit : plan_.units) named.insert(UnitName(unit.pool, unit.server, unit.unit));
  std::erase_if(heard_, [&](const auto& entry) { return !named.contains(entry.first); });
}

void LiveSwitch::SaveHeardReports() {
  NoteHeard();
  const Result<void> saved = SaveHeard(heard_, HeardPath(options_));
  if (!saved && !heard_fails_)
    check_news_.push_back(
        fmt::format("the reports heard are not kept, so that after a reboot old ones would be "
                    "taken again: {}",
                    saved.error().message));
  heard_fails_ = !saved;
}

}  // namespace spillway::switching
