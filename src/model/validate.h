// SPDX-License-Identifier: Apache-2.0
// What no single key can tell: names that must exist, addresses and ports that must not meet, policies
// that need what the file does not offer. Pure.
#pragma once

#include <string>

#include "base/error.h"
#include "base/yaml/problems.h"
#include "pool.h"

namespace spillway::model {

// Adds to `problems` at the places noted there. `config` holds what could be read: names in it are sound
// and unique, other values only where Problems::Sound says so.
void CheckWhole(const Config& config, yaml::Problems& problems);

// The rules of CheckWhole for a configuration that was read once and changed since, by values that are sound
// each by itself. kBadInput: a line per problem, "key.path: expected what, got what".
[[nodiscard]] Result<void> CheckEdited(const Config& config);

// Key paths, the same when reading and when checking.
std::string PathOf(const Service& service);
std::string PathOf(const Pool& pool);
std::string PathOf(const Pool& pool, const Server& server);
std::string PathOf(const Pool& pool, const Server& server, const Unit& unit);

}  // namespace spillway::model
