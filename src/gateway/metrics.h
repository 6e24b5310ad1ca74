// SPDX-License-Identifier: Apache-2.0
// Prometheus metrics of the gateway; docs/gateway.md lists them. Pure.
#pragma once

#include <string>

#include "gateway/server.h"

namespace spillway::gateway {

// Text format 0.0.4.
std::string MetricsText(const Broker& broker, const ServerCounts& counts);

}  // namespace spillway::gateway
