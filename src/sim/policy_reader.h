// SPDX-License-Identifier: Apache-2.0
// The `policies:` of a scenario file, checked against the apps they decide for. As app_reader.h.
#pragma once

#include <vector>

#include "model/reader.h"
#include "sim/app_reader.h"
#include "sim/scenario.h"

namespace spillway::sim {

std::vector<PolicyChoice> ReadPolicies(model::Problems& problems, const model::Field& field,
                                       const std::vector<AppEntry>& apps);

}  // namespace spillway::sim
