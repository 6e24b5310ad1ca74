// SPDX-License-Identifier: Apache-2.0
// A scenario file's keys of requests and reports, for all apps or of one: arrivals (trace, onoff, jump,
// overload), loads, report periods. As app_reader.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/yaml/reader.h"
#include "sim/scenario/scenario.h"

namespace spillway::sim {

// folder: of the scenario file, base of relative paths.
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
