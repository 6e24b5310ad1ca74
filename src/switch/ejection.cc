// SPDX-License-Identifier: Apache-2.0
#include "ejection.h"

#include <algorithm>
#include <unordered_map>

namespace spillway::switching {
namespace {

struct Candidate {
  const PlannedUnit* unit;
  std::chrono::steady_clock::time_point since;
};

bool MayUse(const model::Service& service, const PlannedUnit& unit) {
  return unit.pool == service.pool && unit.status == SPW_UNIT_UP &&
         (service.unit_policy != SPW_UNIT_HOST_ONLY || unit.kind == SPW_KIND_CPU);
}

}  // namespace

Ejection ChooseEjected(const model::Config& config, const std::vector<PlannedUnit>& units,
                       const FailingUnits& failing, const std::function<bool(uint16_t)>& is_resolved) {
  Ejection result;
  std::vector<Candidate> candidates;
  if (!failing.empty()) {
    for (const PlannedUnit& unit : units)
      if (const auto found = failing.find(UnitName(unit.pool, unit.server, unit.unit));
          found != failing.end() && unit.status == SPW_UNIT_UP && is_resolved(unit.id))
        candidates.push_back({&unit, found->second.since});
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(a.since, a.unit->id) < std::pair(b.since, b.unit->id);
  });

  // How many more each service can spare.
  struct Spare {
    const model::Service* service;
    ServiceEjection* shown;
    int64_t left = 0;
  };
  std::unordered_map<std::string, std::vector<Spare>> spares;  // by pool
  for (const model::Service& service : config.services)
    spares[service.pool].push_back({&service, &result.services[service.name]});
  if (candidates.empty() && failing.empty()) return result;

  std::unordered_map<const Spare*, uint32_t> unreachable;
  for (const PlannedUnit& unit : units)
    for (Spare& spare : spares[unit.pool]) {
      if (!MayUse(*spare.service, unit)) continue;
      spare.shown->members++;
      if (!is_resolved(unit.id)) unreachable[&spare]++;
    }
  for (const Candidate& candidate : candidates)
    for (Spare& spare : spares[candidate.unit->pool])
      if (MayUse(*spare.service, *candidate.unit)) spare.shown->failing++;
  for (auto& [pool, list] : spares)
    for (Spare& spare : list) {
      ServiceEjection& shown = *spare.shown;
      shown.fail_open = shown.failing > 0 && shown.failing + unreachable[&spare] == shown.members;
      if (!shown.fail_open) spare.left = int64_t{shown.members / 2} - unreachable[&spare];
    }
  // Services of one pool share its units: what one of them cannot spare, stays.
  for (const Candidate& candidate : candidates) {
    std::vector<Spare>& list = spares[candidate.unit->pool];
    bool used = false, spared = true;
    for (const Spare& spare : list) {
      if (!MayUse(*spare.service, *candidate.unit)) continue;
      used = true;
      spared = spared && spare.left > 0;
    }
    if (!used || !spared) continue;
    result.units.insert(candidate.unit->id);
    for (Spare& spare : list) {
      if (!MayUse(*spare.service, *candidate.unit)) continue;
      spare.left--;
      spare.shown->ejected++;
    }
  }
  // One that was ejected and now cannot even be reached stays so, and its flows stay moved. It is counted
  // already.
  for (const PlannedUnit& unit : units) {
    if (!unit.ejected || unit.status != SPW_UNIT_UP || is_resolved(unit.id) ||
        !failing.contains(UnitName(unit.pool, unit.server, unit.unit)))
      continue;
    const std::vector<Spare>& list = spares[unit.pool];
    if (std::none_of(list.begin(), list.end(), [&](const Spare& spare) {
          return MayUse(*spare.service, unit) && spare.shown->fail_open;
        }))
      result.units.insert(unit.id);
  }
  return result;
}

}  // namespace spillway::switching
