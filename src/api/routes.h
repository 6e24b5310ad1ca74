// SPDX-License-Identifier: Apache-2.0
// The API's endpoints: which request does what, and what is answered. No sockets: docs/cli.md lists
// them, http.h carries them.
#pragma once

#include "api/control.h"
#include "api/http.h"

namespace spillway::api {

// Everything under /v1, and /metrics.
Response Route(Control& control, const Request& request);

// Only GET /metrics: for the read-only TCP listener.
Response RouteMetrics(Control& control, const Request& request);

}  // namespace spillway::api
