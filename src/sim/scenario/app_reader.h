// SPDX-License-Identifier: Apache-2.0
// The `apps:` of a scenario file: each one's servers, service times and spread, threshold. Units are written
// there, or taken from a pool file, which knows their names, kinds, order and capacities, but not how fast
// they are: `profiles:` adds that. Tells `problems` of everything that does not fit; values are usable only
// if there are none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/yaml/reader.h"
#include "sim/scenario/scenario.h"

namespace spillway::sim {

// The policies that a pool file's service names.
struct PoolPolicies {
  spw_server_policy server_policy = SPW_SERVER_MAGLEV;
  spw_unit_policy unit_policy = SPW_UNIT_P4MITE;
  bool operator==(const PoolPolicies&) const = default;
};

struct AppEntry {
  App app;
  std::optional<PoolPolicies> pool;  // of an app whose units come from a pool file
};

// folder: of the scenario file, base of relative paths.
std::vector<AppEntry> ReadApps(yaml::Problems& problems, const yaml::Field& field, const std::string& folder);

}  // namespace spillway::sim
