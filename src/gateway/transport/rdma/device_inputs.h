// SPDX-License-Identifier: Apache-2.0
// A slice's inputs on a GPU, registered with the RDMA device by which its gateway is reached. That is done
// before the gateway is asked: the offer says which memory inputs are delivered into.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <memory>

#include "gateway/transport/device_memory.h"
#include "rdma/connection.h"

namespace spillway::gateway {

// Its members go in this order from the last: the registration, the memory, what they were registered with.
struct RdmaDeviceInputs {
  rdma::Owned<rdma_event_channel> channel;
  rdma::Owned<rdma_cm_id> way;  // to the gateway, by whatever port: keeps that device's context
  rdma::Owned<ibv_pd> domain;   // the slice's own
  RegisteredDeviceMemory registered;
};

// Open for writing from the other side, as a slice's memory on the host is. Errors: kUnavailable, there is no
// RDMA device or no way by one to the gateway; kSystem, the device cannot be given such memory.
[[nodiscard]] Result<std::unique_ptr<RdmaDeviceInputs>> RegisterInputs(
    std::unique_ptr<DeviceMemory> memory, const sockaddr_storage& gateway,
    std::chrono::steady_clock::time_point until);

}  // namespace spillway::gateway
