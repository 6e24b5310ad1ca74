// SPDX-License-Identifier: Apache-2.0
// Reads `health` blocks of the pool file: the one for all services, and a service's own, which takes what it
// does not say from the former. Threading: none keeps state.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/yaml/reader.h"
#include "health.h"
#include "pool.h"

namespace spillway::model {

// What a block says together with what it inherits.
struct HealthBlock {
  std::optional<CheckKind> kind;  // nullopt: `none`, or a default block that says only when and how often
  HealthCheck check;
};

// `folder`: the base of relative paths.
HealthBlock ReadHealthForAll(yaml::Problems& problems, const yaml::Field& field,
                             const std::filesystem::path& folder);
// A service's own; `inherited`: the block for all services, or an empty one.
HealthBlock ReadHealth(yaml::Problems& problems, const yaml::Field& field, const HealthBlock& inherited,
                       const std::filesystem::path& folder);

// The check of `service`, whose ports are read; nullopt: none, or one that is wrong. `path`: where a check
// that does not fit the ports is reported.
std::optional<HealthCheck> CheckOf(yaml::Problems& problems, const std::string& path,
                                   const HealthBlock& block, const std::vector<ServicePort>& ports);

}  // namespace spillway::model
