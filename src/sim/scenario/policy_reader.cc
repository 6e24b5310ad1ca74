// SPDX-License-Identifier: Apache-2.0
// The `policies:` of a scenario file, read.
#include "sim/scenario/readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "model/pool.h"
#include "model/scalars.h"

namespace spillway::sim {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

// `from: pool`: the policies that the pool files' services name, which must be the same everywhere.
void ReadFrom(Problems& problems, const Field& field, const std::vector<AppEntry>& apps,
              PolicyChoice& policy) {
  if (!ReadChoice(problems, field, {"pool"})) return;
  const AppEntry* first = nullptr;
  for (const AppEntry& entry : apps) {
    if (!entry.pool) continue;
    if (first != nullptr && *entry.pool != *first->pool) {
      problems.Add(field.line, field.path,
                   fmt::format("expected pool files whose services agree, got others for {} and {}",
                               first->app.name, entry.app.name));
      return;
    }
    if (first == nullptr) first = &entry;
  }
  if (first == nullptr) {
    problems.Add(field.line, field.path, "expected an app with a pool file, got none");
    return;
  }
  policy.server_policy = first->pool->server_policy;
  policy.server_policy_named = true;
  policy.unit_policy = first->pool->unit_policy;
}

void ReadTrigger(Problems& problems, const MapReader& map, BusyTrigger& trigger) {
  const auto time = [&](const Field& f) { return yaml::ReadTime(problems, f, Duration(1000), kMaxTime); };
  if (const Field* f = map.Find("threshold")) trigger.threshold = time(*f);
  Take(trigger.second_report, map.Find("second_report"), time);
  Take(trigger.of_unloaded, map.Find("of_unloaded"),
       [&](const Field& f) { return yaml::ReadBool(problems, f); });
  Take(trigger.tries, map.Find("tries"),
       [&](const Field& f) { return ReadNumbers(problems, f, 0.001, 1e6, true); });
  if (trigger.of_unloaded) map.Refuse({"threshold"}, "not allowed with of_unloaded");
}

bool HasThreshold(const AppEntry& entry) { return entry.app.threshold.count() > 0; }

bool HostsEverywhere(const AppEntry& entry) {
  const auto is_host = [](const UnitProfile& unit) { return unit.kind == SPW_KIND_CPU; };
  return std::all_of(entry.app.groups.begin(), entry.app.groups.end(), [&](const ServerGroup& group) {
    return std::any_of(group.units.begin(), group.units.end(), is_host);
  });
}

// What a policy needs of the apps, so that a run does not simulate nonsense.
void CheckApps(Problems& problems, const Field& field, const PolicyChoice& policy,
               const std::vector<AppEntry>& apps) {
  if (policy.decider != DeciderKind::kSwitch) return;
  const bool p4mite = policy.unit_policy == SPW_UNIT_P4MITE;
  for (const AppEntry& entry : apps) {
    if (p4mite && !policy.trigger.threshold && !policy.trigger.of_unloaded && !HasThreshold(entry))
      problems.Add(field.line, field.path,
                   fmt::format("expected a threshold, here or of app {}, as p4mite's units are busy by it",
                               entry.app.name));
    if (policy.unit_policy == SPW_UNIT_HOST_ONLY && !HostsEverywhere(entry))
      problems.Add(field.line, field.path,
                   fmt::format("expected a unit of kind cpu in every server of app {}, as host-only uses no "
                               "other",
                               entry.app.name));
  }
  if (policy.unit_policy == SPW_UNIT_HOST_ONLY && policy.units_as_servers)
    problems.Add(field.line, field.path,
                 "expected host-only without units_as_servers, which makes servers of accelerators");
}

void ReadServerPolicy(Problems& problems, const MapReader& map, PolicyChoice& policy) {
  policy.server_policy_named = map.Find("server_policy") != nullptr;
  Take(policy.server_policy, map.Find("server_policy"), [&](const Field& f) {
    return model::ReadWord<spw_server_policy>(problems, f, model::ParseServerPolicy, SPW_SERVER_POLICIES);
  });
}

void ReadDecision(Problems& problems, const MapReader& map, const std::vector<AppEntry>& apps,
                  PolicyChoice& policy) {
  if (const Field* f = map.Find("from")) {
    map.Refuse({"server_policy", "unit_policy"}, "not allowed with from");
    ReadFrom(problems, *f, apps, policy);
    return;
  }
  ReadServerPolicy(problems, map, policy);
  Take(policy.unit_policy, map.Find("unit_policy"), [&](const Field& f) {
    return model::ReadWord<spw_unit_policy>(problems, f, model::ParseUnitPolicy, SPW_UNIT_POLICIES);
  });
}

void ReadOmniscient(Problems& problems, const MapReader& map, PolicyChoice& policy) {
  map.Refuse({"from", "server_policy", "unit_policy", "units_as_servers", "threshold", "tries", "of_unloaded",
              "second_report", "front"},
             "allowed only with decider switch");
  for (auto [key, weights] :
       {std::pair{"wait_weights", &policy.wait_weights}, std::pair{"work_weights", &policy.work_weights}})
    Take(*weights, map.Find(key), [&](const Field& f) { return ReadNumbers(problems, f, 0, 1000, true); });
}

void ReadSwitch(Problems& problems, const MapReader& map, const std::vector<AppEntry>& apps,
                PolicyChoice& policy) {
  map.Refuse({"wait_weights", "work_weights"}, "allowed only with decider omniscient");
  ReadDecision(problems, map, apps, policy);
  Take(policy.units_as_servers, map.Find("units_as_servers"),
       [&](const Field& f) { return yaml::ReadBool(problems, f); });
  if (policy.unit_policy == SPW_UNIT_P4MITE)
    ReadTrigger(problems, map, policy.trigger);
  else
    map.Refuse({"threshold", "tries", "of_unloaded", "second_report"},
               "allowed only with unit policy p4mite");
  if (const Field* front = map.Find("front")) {
    MapReader front_map(problems, *front, {"service"});
    Take(policy.front.service, front_map.Need("service", "the time that a request takes there"),
         [&](const Field& f) { return yaml::ReadTime(problems, f, Duration(1), kMaxTime); });
  }
}

void ReadBaseline(Problems& problems, const MapReader& map, const std::vector<AppEntry>& apps,
                  PolicyChoice& policy) {
  map.Refuse({"from", "unit_policy", "units_as_servers", "threshold", "tries", "of_unloaded", "second_report",
              "front"},
             "allowed only with decider switch");
  map.Refuse({"wait_weights", "work_weights"}, "allowed only with decider omniscient");
  BaselineChoice& baseline = policy.baseline;
  Take(baseline.within_server, map.Find("within"), [&](const Field& f) {
    const auto choice = ReadChoice(problems, f, {"all", "server"});
    return choice ? std::optional<bool>(*choice == 1) : std::nullopt;
  });
  if (baseline.within_server)
    ReadServerPolicy(problems, map, policy);
  else
    map.Refuse({"server_policy"}, "allowed only with decider switch or within: server");
  Take(baseline.quantile, map.Find("quantile"),
       [&](const Field& f) { return yaml::ReadNumber(problems, f, 0, 1); });
  Take(baseline.decay, map.Find("decay"),
       [&](const Field& f) { return yaml::ReadTime(problems, f, std::chrono::milliseconds(1), kMaxTime); });
  Take(baseline.bias, map.Find("bias"),
       [&](const Field& f) { return yaml::ReadNumber(problems, f, 0, 100); });
  const Field* probes = map.Find("probes");
  if (probes == nullptr) return;
  Take(baseline.probes, probes, [&](const Field& f) { return yaml::ReadBool(problems, f); });
  if (baseline.probes.value_or(true) || baseline.within_server) return;  // a server has so many at most
  for (const AppEntry& entry : apps) {
    size_t units = 0;
    for (const ServerGroup& group : entry.app.groups) units += group.count * group.units.size();
    if (units > kMaxReportedPrequalUnits)
      problems.Add(probes->line, probes->path,
                   fmt::format("expected at most {} units without probes, app {} has {}",
                               kMaxReportedPrequalUnits, entry.app.name, units));
  }
}

void ReadDecider(Problems& problems, const MapReader& map, const std::vector<AppEntry>& apps,
                 PolicyChoice& policy) {
  // In the order of DeciderKind.
  size_t decider = 0;
  Take(decider, map.Find("decider"), [&](const Field& f) {
    return ReadChoice(problems, f,
                      {"switch", "omniscient", "prequal", "c3", "peak-ewma", "least-request", "jiq", "scd"});
  });
  policy.decider = static_cast<DeciderKind>(decider);
  if (const Field* f = map.Find("decider"); f != nullptr && !problems.Sound(f->path)) return;
  if (!IsBaseline(policy.decider)) map.Refuse({"within"}, "allowed only with a baseline as decider");
  if (policy.decider != DeciderKind::kPrequal)
    map.Refuse({"quantile", "probes"}, "allowed only with decider prequal");
  if (policy.decider != DeciderKind::kPeakEwma) map.Refuse({"decay"}, "allowed only with decider peak-ewma");
  if (policy.decider != DeciderKind::kLeastRequest)
    map.Refuse({"bias"}, "allowed only with decider least-request");
  if (IsBaseline(policy.decider))
    ReadBaseline(problems, map, apps, policy);
  else if (policy.decider == DeciderKind::kOmniscient)
    ReadOmniscient(problems, map, policy);
  else
    ReadSwitch(problems, map, apps, policy);
}

}  // namespace

std::vector<PolicyChoice> ReadPolicies(Problems& problems, const Field& field,
                                       const std::vector<AppEntry>& apps) {
  std::vector<PolicyChoice> policies;
  std::set<std::string> names;
  const auto entries = yaml::ReadList(problems, field, "a list of policies");
  if (field.node.IsSequence() && entries.empty())
    problems.Add(field.line, field.path, "expected at least one policy, got an empty list");
  for (const Field& entry : entries) {
    MapReader map(problems, entry,
                  {"name", "decider", "from", "server_policy", "unit_policy", "units_as_servers", "threshold",
                   "tries", "of_unloaded", "second_report", "front", "wait_weights", "work_weights",
                   "quantile", "probes", "decay", "bias", "within"});
    PolicyChoice policy;
    if (const Field* f = map.Need("name", "a name"))
      if (auto name = yaml::ReadName(problems, *f)) {
        policy.name = *name;
        CheckOwnName(problems, *f, *name, names);
      }
    ReadDecider(problems, map, apps, policy);
    CheckApps(problems, entry, policy, apps);
    policies.push_back(std::move(policy));
  }
  return policies;
}

}  // namespace spillway::sim
