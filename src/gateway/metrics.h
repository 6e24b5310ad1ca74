// SPDX-License-Identifier: Apache-2.0
// Prometheus metrics of the gateway; docs/gateway.md lists them. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "gateway/server.h"
#include "scheduler/controller/fleet.h"

namespace spillway::gateway {

// Text format 0.0.4.
std::string MetricsText(const Broker& broker, const ServerCounts& counts);
// What a controller adds. `refused`: changes of models that it refused, by the status of its answer.
std::string FleetMetricsText(const scheduler::Fleet& fleet, const std::map<int, uint64_t>& refused = {});

}  // namespace spillway::gateway
