// SPDX-License-Identifier: Apache-2.0
// The gateway's HTTP front: the Open Inference Protocol v2, and /metrics; memory of bodies that are still
// being read. Parses on HTTP's thread, asks on the gateway's, formats on HTTP's again; what takes long is
// parsed and formatted by the text workers. docs/gateway.md lists the paths.
#pragma once

#include "api/http.h"
#include "gateway/http/text_workers.h"
#include "gateway/server.h"

namespace spillway::gateway {

// The handler refers to both. They outlive the HTTP server, and `server` the workers, whose jobs answer to
// it.
api::AsyncHandler InferenceFront(Server& server, TextWorkers& text);

// Its limits, by the gateway's; `server` outlives the HTTP server. Who sends no tenant's token, or a body
// where none belongs, is refused before it is read.
api::HttpLimits InferenceLimits(Server& server);

// Health and metrics alone, for a listener of their own that requests cannot fill.
api::AsyncHandler HealthFront(Server& server);
api::HttpLimits HealthLimits();

}  // namespace spillway::gateway
