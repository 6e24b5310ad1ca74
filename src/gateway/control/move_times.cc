// SPDX-License-Identifier: Apache-2.0
#include "gateway/control/move_times.h"

#include <algorithm>
#include <utility>

#include "scheduler/controller/fleet_view.h"

namespace spillway::gateway {

using namespace scheduler;

namespace {
std::string PlaceName(const Instance& one) { return GpuKey(one.place.host, one.place.gpu); }
}  // namespace

MoveTimes::Seen MoveTimes::See(const Fleet& fleet, const std::set<uint64_t>& here, Millis now) {
  const Millis passed = std::max<Millis>(0, now - std::exchange(last_, now));
  Seen seen;
  std::erase_if(moves_, [&](const auto& entry) {
    const auto at = fleet.instances.find(entry.first);
    if (at == fleet.instances.end() || at->second.phase == Phase::kStopping) return true;  // it failed
    if (at->second.replaces != 0) return false;
    // Else the old one died before: no move took its place, and what its death costs is no move's.
    if (entry.second.took_over) seen.ended.push_back(entry.second.move);
    return true;
  });
  for (auto& [id, watched] : moves_) {
    Move& move = watched.move;
    const bool is_served =
        std::any_of(fleet.instances.begin(), fleet.instances.end(), [&](const auto& entry) {
          return entry.second.model.name == move.model && entry.second.phase == Phase::kReady &&
                 here.contains(entry.first);
        });
    if (!is_served) move.downtime += passed;
  }
  for (const auto& [id, one] : fleet.instances) {
    if (one.replaces == 0 || one.phase == Phase::kStopping) continue;
    const auto old = fleet.instances.find(one.replaces);
    const auto [at, is_new] = moves_.try_emplace(id);
    if (is_new) {
      at->second.move = {one.model.name, old == fleet.instances.end() ? "" : PlaceName(old->second),
                         PlaceName(one)};
      seen.begun.push_back(at->second.move);
    }
    if (old != fleet.instances.end() && old->second.phase == Phase::kDraining) at->second.took_over = true;
  }
  return seen;
}

}  // namespace spillway::gateway
