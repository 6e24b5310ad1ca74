// SPDX-License-Identifier: Apache-2.0
// An executor joins the gateway of another machine, such as its own SmartNIC.
#pragma once

#include <string>

#include "gateway/transport/join.h"

namespace spillway::gateway {

// `address`: ADDRESS:PORT, numeric, of the gateway's rdma.listen. Errors: as JoinGateway's.
[[nodiscard]] Result<Joined> JoinOverRdma(const std::string& address, const std::string& token,
                                          const ExecutorOffer& offer, const DeviceInputs& inputs);

}  // namespace spillway::gateway
