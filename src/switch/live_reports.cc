// SPDX-License-Identifier: Apache-2.0
// The last load report heard of each unit: the part of LiveSwitch that keeps replays stale.
#include <fmt/format.h>

#include <set>

#include "live_switch.h"

namespace spillway::switching {
namespace {

// Units that were and may come again included; each by both of its names.
constexpr size_t kMaxHeard = size_t{4} * SPW_MAX_UNITS;

std::string HeardPath(const Options& options) {
  return options.state_dir + "/" + options.instance + ".reports";
}

}  // namespace

void LiveSwitch::LoadHeardReports() { heard_ = LoadHeard(HeardPath(options_)); }

Result<bool> LiveSwitch::MuteForChange(const Plan& plan) {
  std::map<uint32_t, const PlannedServer*> wanted;
  for (const PlannedServer& server : plan.servers) wanted[server.code] = &server;
  bool waits = false;
  for (uint32_t code = 0; code < plane_->server_keys.size(); code++) {
    const auto found = wanted.find(code);
    waits |= found == wanted.end() ? plane_->Mute(code, std::nullopt, 0)
                                   : plane_->Mute(code, found->second->key, found->second->units_mask);
  }
  if (!waits) return false;
  return plane_->AwaitPrograms().map([] { return true; });
}

void LiveSwitch::WriteKeyOf(const Plan& plan, const PlannedServer& server) {
  DataPlane::Seen heard{};
  for (const PlannedUnit& unit : plan.units) {
    if (spw_unit_server(unit.id) != server.code || !server.key) continue;
    spw_report_seen& last = heard[spw_unit_index(unit.id)];
    for (const std::string& name : {UnitName(unit.pool, unit.server, unit.unit), WireName(unit.id)}) {
      const auto found = heard_.find(name);
      if (found == heard_.end()) continue;
      const auto seen = found->second.LastUnder(KeyTag(spw_siphash_key_of(server.key->data())));
      if (IsLater(seen, last)) last = seen;
    }
  }
  plane_->WriteKey(server.code, server.key, server.units_mask, heard);
}

void LiveSwitch::NoteHeard(const Plan& plan) {
  std::map<uint32_t, DataPlane::Heard> servers;
  for (const PlannedServer& server : plan.servers) servers[server.code] = plane_->ReadHeard(server.code);
  for (const PlannedUnit& unit : plan.units) {
    const auto found = servers.find(spw_unit_server(unit.id));
    if (found == servers.end()) continue;
    const spw_report_seen& last = found->second.seen[spw_unit_index(unit.id)];
    if (last.boot_id == 0 && last.sequence == 0) continue;
    for (const std::string& name : {UnitName(unit.pool, unit.server, unit.unit), WireName(unit.id)})
      heard_[name].Note({found->second.key_tag, last});
  }
  if (heard_.size() <= kMaxHeard) return;
  std::set<std::string> named;
  for (const PlannedUnit& unit : plan.units)
    named.insert({UnitName(unit.pool, unit.server, unit.unit), WireName(unit.id)});
  std::erase_if(heard_, [&](const auto& entry) { return !named.contains(entry.first); });
}

void LiveSwitch::SaveHeardReports() {
  NoteHeard(plan_);
  WriteHeardReports();
}

void LiveSwitch::WriteHeardReports() {
  const Result<void> saved = SaveHeard(heard_, HeardPath(options_));
  if (!saved && !heard_fails_)
    check_news_.push_back({fmt::format(
        "cannot save last report numbers; after a reboot, replayed reports would be accepted: {}",
        saved.error().message)});
  heard_fails_ = !saved;
}

}  // namespace spillway::switching
