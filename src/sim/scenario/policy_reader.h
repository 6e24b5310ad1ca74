// SPDX-License-Identifier: Apache-2.0
// The `policies:` of a scenario file, checked against the apps they decide for. As app_reader.h.
#pragma once

#include <vector>

#include "base/yaml/reader.h"
#include "sim/scenario/app_reader.h"
#include "sim/scenario/scenario.h"

namespace spillway::sim {

std::vector<PolicyChoice> ReadPolicies(yaml::Problems& problems, const yaml::Field& field,
                                       const std::vector<AppEntry>& apps);

}  // namespace spillway::sim
