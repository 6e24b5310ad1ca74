// SPDX-License-Identifier: Apache-2.0
// The parts of a scenario file's reader (scenario_reader.h), each for some of its keys. They tell `problems`
// of everything that does not fit; values are usable only if there are none. Threading: none keeps state.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/yaml/reader.h"
#include "base/yaml/scalars.h"
#include "sim/scenario/scenario.h"

namespace spillway::sim {

// Values of a scenario file beyond base/yaml/scalars.h: each function reads one, or reports what it expected.

using yaml::ReadChoice;
using yaml::Take;

inline constexpr std::chrono::hours kMaxTime{1};  // of whatever a scenario gives a time for

// At least one number, each from `least` to `most`; `ascending`: each greater than the one before.
std::optional<std::vector<double>> ReadNumbers(yaml::Problems& problems, const yaml::Field& field,
                                               double least, double most, bool ascending);

// Reports a name that is in `taken` already.
void CheckOwnName(yaml::Problems& problems, const yaml::Field& field, const std::string& name,
                  std::set<std::string>& taken);

// Units of a scenario file (workers, quota, stall, neighbour ...), and lists of them:
// {name, kind, capacity} and the speed below; 1 to SPW_UNITS_PER_SERVER of them.
std::vector<UnitProfile> ReadUnits(yaml::Problems& problems, const yaml::Field& field);

// {workers, service, unloaded, queue_limit, cpu_quota, ...}: all that a pool file does not know of a unit.
UnitProfile ReadSpeed(yaml::Problems& problems, const yaml::Field& field);

// The policies that a pool file's service names.
struct PoolPolicies {
  spw_server_policy server_policy = SPW_SERVER_MAGLEV;
  spw_unit_policy unit_policy = SPW_UNIT_P4MITE;
  bool operator==(const PoolPolicies&) const = default;
};

// Servers of an app from a pool file: names, kinds, order and capacities of the units are the file's, their
// speeds the scenario's. Units that the file drains are left out.
struct PoolServers {
  std::vector<ServerGroup> groups;
  std::vector<std::string> server_names;  // of the servers, in the groups' order
  PoolPolicies policies;
};

// pool: {file, service}; profiles: {KIND or POOL/SERVER/UNIT: {workers, service, ...}}.
PoolServers ReadPoolServers(yaml::Problems& problems, const yaml::Field& pool, const yaml::Field& profiles,
                            const std::string& folder);

// The `apps:` of a scenario file: each one's servers, service times and spread, threshold. Units are written
// there, or taken from a pool file, which knows their names, kinds, order and capacities, but not how fast
// they are: `profiles:` adds that.
struct AppEntry {
  App app;
  std::optional<PoolPolicies> pool;  // of an app whose units come from a pool file
};

// folder: of the scenario file, base of relative paths.
std::vector<AppEntry> ReadApps(yaml::Problems& problems, const yaml::Field& field, const std::string& folder);

// The `policies:` of a scenario file, checked against the apps they decide for.
std::vector<PolicyChoice> ReadPolicies(yaml::Problems& problems, const yaml::Field& field,
                                       const std::vector<AppEntry>& apps);

// A trace of arrivals: one time in seconds per line, none before the one above it. Lines that are empty or
// begin with # are passed over. Pure but for reading the file.
// At least two times, the last after the first. Errors: kBadInput, "file:line: expected what, got what".
[[nodiscard]] Result<std::vector<double>> LoadTrace(const std::string& path);
[[nodiscard]] Result<std::vector<double>> ParseTrace(const std::string& text, const std::string& file_name);

// A scenario file's keys of requests and reports, for all apps or of one: arrivals (trace, onoff, jump,
// overload), loads, report periods. folder: of the scenario file, base of relative paths.
std::vector<Arrivals> ReadArrivals(yaml::Problems& problems, const yaml::Field& field,
                                   const std::string& folder);
std::vector<Reports> ReadReports(yaml::Problems& problems, const yaml::Field& field);
Reports DefaultReports();
std::optional<Duration> ReadWire(yaml::Problems& problems, const yaml::Field& field);
std::optional<uint64_t> ReadRequests(yaml::Problems& problems, const yaml::Field& field);
std::optional<uint64_t> ReadRuns(yaml::Problems& problems, const yaml::Field& field);
std::optional<uint64_t> ReadFlows(yaml::Problems& problems, const yaml::Field& field);
// `warm_up`, or `cold_start`, which is a warm-up of 0; nullopt: neither.
std::optional<uint64_t> ReadWarmUp(yaml::Problems& problems, const yaml::MapReader& map);

}  // namespace spillway::sim
