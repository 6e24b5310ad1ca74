// SPDX-License-Identifier: Apache-2.0
// Prometheus metrics of the gateway; docs/gateway.md lists them. Pure.
#pragma once

#include <string>

#include "gateway/server.h"
#include "scheduler/controller/fleet.h"

namespace spillway::gateway {

// Text format 0.0.4.
std::string MetricsText(const Broker& broker, const ServerCounts& counts);
// What a controller adds.
std::string FleetMetricsText(const scheduler::Fleet& fleet);

}  // namespace spillway::gateway
