// SPDX-License-Identifier: Apache-2.0
// The `apps:` of a scenario file, read.
#include "sim/scenario/readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "model/scalars.h"

namespace spillway::sim {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

constexpr uint32_t kMaxServers = 10'000;
constexpr double kMaxCapacityRatio = 10'000;  // of the greatest to the least: the switch's weights are whole

std::vector<ServerGroup> ReadGroups(Problems& problems, const Field& field) {
  std::vector<ServerGroup> groups;
  const auto entries = yaml::ReadList(problems, field, "a list of groups of servers");
  if (field.node.IsSequence() && entries.empty())
    problems.Add(field.line, field.path, "expected at least one group, got an empty list");
  for (const Field& entry : entries) {
    MapReader map(problems, entry, {"count", "units"});
    ServerGroup group;
    if (const Field* f = map.Find("count"))
      if (auto n = yaml::ReadInteger(problems, *f, 1, kMaxServers)) group.count = static_cast<uint32_t>(*n);
    if (const Field* f = map.Need("units", "a list of units")) group.units = ReadUnits(problems, *f);
    groups.push_back(std::move(group));
  }
  return groups;
}

// `units` stand alone, for `servers` equal servers; or in `groups`; or come from a `pool` file.
void ReadServers(Problems& problems, const Field& field, const MapReader& map, const std::string& folder,
                 AppEntry& entry, std::vector<std::string>& server_names) {
  const Field *units = map.Find("units"), *groups = map.Find("groups"), *pool = map.Find("pool");
  const int given = (units != nullptr) + (groups != nullptr) + (pool != nullptr);
  if (given != 1) {
    if (map.is_map())
      problems.Add(field.line, field.path,
                   fmt::format("expected one of units, groups and pool, got {} of them", given));
    return;
  }
  if (units == nullptr) map.Refuse({"servers"}, "allowed only with units");
  if (pool == nullptr) map.Refuse({"profiles"}, "allowed only with pool");
  if (groups != nullptr) entry.app.groups = ReadGroups(problems, *groups);
  if (units != nullptr) {
    ServerGroup group;
    if (const Field* f = map.Find("servers"))
      if (auto n = yaml::ReadInteger(problems, *f, 1, kMaxServers)) group.count = static_cast<uint32_t>(*n);
    group.units = ReadUnits(problems, *units);
    entry.app.groups.push_back(std::move(group));
  }
  if (pool == nullptr) return;
  const Field* profiles = map.Need("profiles", "a map of profiles by kind or by pool/server/unit");
  if (profiles == nullptr) return;
  PoolServers servers = ReadPoolServers(problems, *pool, *profiles, folder);
  entry.app.groups = std::move(servers.groups);
  entry.pool = servers.policies;
  server_names = std::move(servers.server_names);
}

void CheckServers(Problems& problems, const Field& field, const App& app) {
  uint64_t servers = 0;
  double least = 1e300, greatest = 0;
  for (const ServerGroup& group : app.groups) {
    servers += group.count;
    for (const UnitProfile& unit : group.units) {
      least = std::min(least, unit.capacity);
      greatest = std::max(greatest, unit.capacity);
    }
  }
  if (servers > kMaxServers)
    problems.Add(field.line, field.path,
                 fmt::format("expected at most {} servers, got {}", kMaxServers, servers));
  if (greatest > kMaxCapacityRatio * least)
    problems.Add(field.line, field.path,
                 fmt::format("expected capacities that differ by at most {} times, got {} to {}",
                             kMaxCapacityRatio, least, greatest));
}

// A server by its number, or by its name in the pool file.
std::optional<uint32_t> FindServer(Problems& problems, const Field& field, const App& app,
                                   const std::vector<std::string>& names) {
  uint32_t servers = 0, number = 0;
  for (const ServerGroup& group : app.groups) servers += group.count;
  const std::string text = field.node.IsScalar() ? field.node.Scalar() : "";
  const auto named = std::find(names.begin(), names.end(), text);
  if (named != names.end()) return static_cast<uint32_t>(named - names.begin());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!text.empty() && error == std::errc() && end == text.data() + text.size() && number < servers)
    return number;
  problems.Add(field.line, field.path,
               fmt::format("expected a server's number from 0 to {}{}, got {}", servers - 1,
                           names.empty() ? "" : ", or its name", yaml::Describe(field.node)));
  return std::nullopt;
}

std::optional<uint32_t> FindUnit(Problems& problems, const Field& field, const App& app, uint32_t server) {
  const ServerGroup* its = nullptr;
  uint32_t before = 0;
  for (const ServerGroup& group : app.groups) {
    if (server >= before && server < before + group.count) its = &group;
    before += group.count;
  }
  for (uint32_t u = 0; its != nullptr && u < its->units.size(); u++)
    if (field.node.IsScalar() && its->units[u].name == field.node.Scalar()) return u;
  problems.Add(field.line, field.path,
               fmt::format("expected a unit of server {}, got {}", server, yaml::Describe(field.node)));
  return std::nullopt;
}

void ReadFailure(Problems& problems, const Field& field, App& app, const std::vector<std::string>& names) {
  MapReader map(problems, field, {"server", "unit", "at", "until", "noticed_after"});
  Failure failure;
  const auto time = [&](const Field& f) { return yaml::ReadTime(problems, f, Duration(0), kMaxTime); };
  const Field* server = map.Need("server", "a server's number");
  const Field* unit = map.Need("unit", "a unit's name");
  Take(failure.at, map.Need("at", "a time of the run"), time);
  const Field* until = map.Need("until", "a time of the run");
  Take(failure.until, until, time);
  if (until != nullptr && problems.Sound(until->path) && failure.until <= failure.at)
    problems.Add(until->line, until->path, "expected a time after at, got " + yaml::Describe(until->node));
  if (const Field* f = map.Find("noticed_after"))
    failure.noticed = yaml::ReadTime(problems, *f, Duration(0), kMaxTime);
  if (server != nullptr) {
    if (auto s = FindServer(problems, *server, app, names)) {
      failure.server = *s;
      if (unit != nullptr)
        Take(failure.unit, unit, [&](const Field& f) { return FindUnit(problems, f, app, failure.server); });
    }
  }
  app.failures.push_back(failure);
}

void ReadWorkload(Problems& problems, const MapReader& map, App& app) {
  Take(app.joint_rps, map.Find("joint_rps"),
       [&](const Field& f) { return yaml::ReadNumber(problems, f, 0.001, 1e12); });
  Take(app.threshold, map.Find("threshold"),
       [&](const Field& f) { return yaml::ReadTime(problems, f, Duration(1000), kMaxTime); });
  if (const Field* f = map.Find("spread"))
    if (auto word = ReadChoice(problems, *f, {"lognormal", "exponential", "bimodal"}))
      app.spread = static_cast<Spread>(*word);
  if (app.spread == Spread::kBimodal) {
    Take(app.bimodal.heavy_share, map.Find("heavy_share"),
         [&](const Field& f) { return yaml::ReadNumber(problems, f, 0, 1); });
    Take(app.bimodal.heavy_ratio, map.Find("heavy_ratio"),
         [&](const Field& f) { return yaml::ReadNumber(problems, f, 1, 1e6); });
  } else {
    map.Refuse({"heavy_share", "heavy_ratio"}, "allowed only with spread bimodal");
  }
  if (app.spread != Spread::kLognormal) {
    if (app.spread == Spread::kExponential) app.cv = 1;
    map.Refuse({"cv"}, "allowed only with spread lognormal");
  } else {
    Take(app.cv, map.Find("cv"), [&](const Field& f) { return yaml::ReadNumber(problems, f, 0, 10); });
  }
}

// What the app has of its own instead of the scenario's.
void ReadOverrides(Problems& problems, const MapReader& map, const std::string& folder, Overrides& own) {
  if (const Field* f = map.Find("arrivals")) own.arrivals = ReadArrivals(problems, *f, folder);
  if (const Field* f = map.Find("reports")) own.reports = ReadReports(problems, *f);
  Take(own.load_pct, map.Find("load_pct"),
       [&](const Field& f) { return ReadNumbers(problems, f, 0.01, 1000, true); });
  if (const Field* f = map.Find("wire")) own.wire = ReadWire(problems, *f);
  if (const Field* f = map.Find("requests")) own.requests = ReadRequests(problems, *f);
  if (const Field* f = map.Find("runs"))
    if (auto n = ReadRuns(problems, *f)) own.runs = static_cast<uint32_t>(*n);
  if (const Field* f = map.Find("flows"))
    if (auto n = ReadFlows(problems, *f)) own.flows = static_cast<uint32_t>(*n);
  own.warm_up = ReadWarmUp(problems, map);
  if (const Field* f = map.Find("server_policy"))
    own.server_policy =
        model::ReadWord<spw_server_policy>(problems, *f, model::ParseServerPolicy, SPW_SERVER_POLICIES);
}

AppEntry ReadApp(Problems& problems, const Field& field, const std::string& folder,
                 std::set<std::string>& names) {
  MapReader map(problems, field,
                {"name",      "servers",   "units",      "groups",   "pool",         "profiles",
                 "joint_rps", "threshold", "spread",     "cv",       "heavy_share",  "heavy_ratio",
                 "failures",  "arrivals",  "reports",    "load_pct", "wire",         "requests",
                 "warm_up",   "runs",      "cold_start", "flows",    "server_policy"});
  AppEntry entry;
  if (const Field* f = map.Need("name", "a name"))
    if (auto name = yaml::ReadName(problems, *f)) {
      entry.app.name = *name;
      CheckOwnName(problems, *f, *name, names);
    }
  std::vector<std::string> server_names;
  ReadServers(problems, field, map, folder, entry, server_names);
  CheckServers(problems, field, entry.app);
  ReadWorkload(problems, map, entry.app);
  ReadOverrides(problems, map, folder, entry.app.own);
  // Failures speak of servers and units, so these must have been understood.
  const auto& groups = entry.app.groups;
  const bool understood =
      !groups.empty() &&
      std::none_of(groups.begin(), groups.end(), [](const auto& group) { return group.units.empty(); });
  const Field* failures = map.Find("failures");
  if (failures != nullptr && understood)
    for (const Field& failure : yaml::ReadList(problems, *failures, "a list of failures"))
      ReadFailure(problems, failure, entry.app, server_names);
  return entry;
}

}  // namespace

std::vector<AppEntry> ReadApps(Problems& problems, const Field& field, const std::string& folder) {
  std::vector<AppEntry> apps;
  std::set<std::string> names;
  const auto entries = yaml::ReadList(problems, field, "a list of apps");
  if (field.node.IsSequence() && entries.empty())
    problems.Add(field.line, field.path, "expected at least one app, got an empty list");
  for (const Field& entry : entries) apps.push_back(ReadApp(problems, entry, folder, names));
  return apps;
}

}  // namespace spillway::sim
