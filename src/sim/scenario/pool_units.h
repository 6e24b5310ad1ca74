// SPDX-License-Identifier: Apache-2.0
// Servers of an app from a pool file: names, kinds, order and capacities of the units are the file's, their
// speeds the scenario's. Units that the file drains are left out. As app_reader.h.
#pragma once

#include <string>
#include <vector>

#include "base/yaml/reader.h"
#include "sim/scenario/app_reader.h"

namespace spillway::sim {

struct PoolServers {
  std::vector<ServerGroup> groups;
  std::vector<std::string> server_names;  // of the servers, in the groups' order
  PoolPolicies policies;
};

// pool: {file, service}; profiles: {KIND or POOL/SERVER/UNIT: {workers, service, ...}}.
PoolServers ReadPoolServers(yaml::Problems& problems, const yaml::Field& pool, const yaml::Field& profiles,
                            const std::string& folder);

}  // namespace spillway::sim
