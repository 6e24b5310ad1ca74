// SPDX-License-Identifier: Apache-2.0
// First packets of connections that nobody means to go on with, each from another address and port.
#pragma once

#include "base/error.h"
#include "lab/testbed/plan.h"

namespace spillway::e2e {

// From the client's namespace, as fast as it goes: numbers `first` on, each a flow of its own. Sources:
// 198.18.0.0/15 or 2001:db8::/32, to which nothing here has a route, so the answers end at the switch's
// stack.
[[nodiscard]] Result<void> FloodSyns(const lab::Plan& plan, const model::Address& to, uint16_t port,
                                     uint32_t first, uint32_t count);

}  // namespace spillway::e2e
