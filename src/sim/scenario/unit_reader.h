// SPDX-License-Identifier: Apache-2.0
// Units of a scenario file (workers, quota, stall, neighbour ...), and lists of them. As app_reader.h.
#pragma once

#include <string>
#include <vector>

#include "base/yaml/reader.h"
#include "sim/scenario/scenario.h"

namespace spillway::sim {

// {name, kind, capacity} and the speed below; 1 to SPW_UNITS_PER_SERVER of them.
std::vector<UnitProfile> ReadUnits(yaml::Problems& problems, const yaml::Field& field);

// {workers, service, unloaded, queue_limit, cpu_quota, ...}: all that a pool file does not know of a unit.
UnitProfile ReadSpeed(yaml::Problems& problems, const yaml::Field& field);

}  // namespace spillway::sim
