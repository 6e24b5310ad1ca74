// SPDX-License-Identifier: Apache-2.0
// A client's end of a window at a gateway of another machine: the client's own copy, registered with its
// device. Needs no RDMA headers; of a build without RDMA, both functions say so.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/socket_address.h"
#include "gateway/transport/window.h"

namespace spillway::gateway {

// Where a gateway awaits the connection of a window that was asked for.
struct RemoteWindowPlace {
  base::SocketAddress gateway;
  uint64_t ticket = 0;
  uint64_t bytes = 0;
  uint32_t slots = 0;
};

// Whether this machine has what such a window needs: to be asked before the gateway is. Errors: kUnavailable.
[[nodiscard]] Result<void> CheckRdma();

// Errors: kUnavailable, also when the gateway is not to be reached so; kConflict, it refuses; kSystem.
[[nodiscard]] Result<std::unique_ptr<ClientWindow>> OpenRemoteWindow(
    const RemoteWindowPlace& place, std::chrono::steady_clock::time_point until);

}  // namespace spillway::gateway
