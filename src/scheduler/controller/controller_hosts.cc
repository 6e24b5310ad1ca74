// SPDX-License-Identifier: Apache-2.0
// What hosts say of their GPUs and instances, and hosts that are lost and forgotten.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "scheduler/controller/controller.h"

namespace spillway::scheduler {

void Controller::HostSays(const std::string& name, const std::vector<Gpu>& gpus,
                          const std::vector<Held>& held, uint64_t revision, Millis now,
                          const std::set<std::string>& programs, const std::string& agent) {
  Begin(now);
  GpuHost& host = fleet_.hosts[name];
  if (!host.is_up || !(host.gpus == gpus) || host.programs != programs) {
    host = {gpus, true, fleet_.now, programs};
    Changed();
  }
  host.agent = agent;
  std::map<uint64_t, const Held*> by_id;
  for (const Held& one : held) by_id[one.instance] = &one;
  std::vector<uint64_t> ids;
  for (const auto& [id, one] : fleet_.instances)
    if (one.place.host == name) ids.push_back(id);
  for (const uint64_t id : ids) {
    Instance& one = *Find(id);
    const auto at = by_id.find(id);
    if (one.phase == Phase::kStopping) {
      if (at != by_id.end() && at->second->has_failed) Explain(one, at->second->why);
      if (at == by_id.end() && revision >= one.dropped) Gone(id);
      continue;
    }
    if (at != by_id.end() && at->second->has_failed) {
      if (at->second->slice_refused)
        CountFailure(fleet_.gpu_troubles[GpuKey(name, one.place.gpu)], at->second->why);
      GiveUp(one, at->second->why);
    } else if (host.HasEnded()) {  // no failure of the model's
      fleet_.planned.clear();
      Stop(one);
    } else if (const std::string why = WhyLost(fleet_, one.place); !why.empty()) {
      GiveUp(one, why);
    }
  }
  Reconcile();
}

// Executors may live on without the one who started them: those that are ready stay so until they leave.
void Controller::HostLost(const std::string& name, Millis now) {
  Begin(now);
  const auto host = fleet_.hosts.find(name);
  if (host != fleet_.hosts.end() && host->second.is_up) {
    host->second.is_up = false;
    host->second.since = fleet_.now;
    Changed();
    for (auto& [id, one] : fleet_.instances)
      if (one.place.host == name && one.phase == Phase::kStarting)
        GiveUp(one, fmt::format("host {} was lost while the instance was starting", name));
  }
  Reconcile();
}

bool Controller::ForgetHost(const std::string& name, Millis now) {
  const auto host = fleet_.hosts.find(name);
  if (host == fleet_.hosts.end() || host->second.is_up) return false;
  const bool is_used = std::any_of(fleet_.instances.begin(), fleet_.instances.end(),
                                   [&](const auto& entry) { return entry.second.place.host == name; });
  if (is_used) return false;
  Begin(now);
  fleet_.hosts.erase(host);
  Changed();
  return true;
}

}  // namespace spillway::scheduler
