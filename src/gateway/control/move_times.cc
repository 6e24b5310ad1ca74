// SPDX-License-Identifier: Apache-2.0
#include "gateway/control/move_times.h"

#include <algorithm>

namespace spillway::gateway {

using namespace scheduler;

std::vector<MoveTimes::Ended> MoveTimes::See(const Fleet& fleet, const std::set<uint64_t>& here, Millis now) {
  const Millis passed = std::max<Millis>(0, now - std::exchange(last_, now));
  std::vector<Ended> ended;
  std::erase_if(moves_, [&](const auto& entry) {
    const auto at = fleet.instances.find(entry.first);
    if (at == fleet.instances.end() || at->second.phase == Phase::kStopping) return true;  // it failed
    if (at->second.replaces != 0) return false;
    // Else the old one died before: no move took its place, and what its death costs is no move's.
    if (entry.second.took_over) ended.push_back({entry.second.model, entry.second.downtime});
    return true;
  });
  for (auto& [id, move] : moves_) {
    const bool is_served =
        std::any_of(fleet.instances.begin(), fleet.instances.end(), [&](const auto& entry) {
          return entry.second.model.name == move.model && entry.second.phase == Phase::kReady &&
                 here.contains(entry.first);
        });
    if (!is_served) move.downtime += passed;
  }
  for (const auto& [id, one] : fleet.instances) {
    if (one.replaces == 0 || one.phase == Phase::kStopping) continue;
    Move& move = moves_.try_emplace(id, Move{one.model.name}).first->second;
    const auto old = fleet.instances.find(one.replaces);
    move.took_over =
        move.took_over || (old != fleet.instances.end() && old->second.phase == Phase::kDraining);
  }
  return ended;
}

}  // namespace spillway::gateway
