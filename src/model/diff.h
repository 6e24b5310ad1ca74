// SPDX-License-Identifier: Apache-2.0
// What a new configuration changes, in words for logs and for `spillway apply`. Pure.
#pragma once

#include <string>
#include <vector>

#include "pool.h"

namespace spillway::model {

// One line per change, e.g. "service dns: unit_policy p4mite -> wrr" or "pool rack1: server s3 added (2
// units)": switch first, then services, then pools; in each, what is removed, added, changed, reordered.
// Empty exactly when from == to. Both with unique names, as ParseConfig gives them. Keys are not shown.
std::vector<std::string> Diff(const Config& from, const Config& to);

}  // namespace spillway::model
