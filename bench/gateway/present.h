// SPDX-License-Identifier: Apache-2.0
// What `spillway bench gateway` shows of its document. Pure but for WriteGatewayPage.
#pragma once

#include <string>

#include "report/document.h"

namespace spillway::bench {

[[nodiscard]] std::string GatewayText(const report::Document& document);
// gateway.json, gateway.html (latency by load of each size, kernel and concurrency) and gateway.svg (the
// first of these) into `folder`.
[[nodiscard]] Result<void> WriteGatewayPage(const report::Document& document, const std::string& folder);

}  // namespace spillway::bench
