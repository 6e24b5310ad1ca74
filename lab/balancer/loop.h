// SPDX-License-Identifier: Apache-2.0
// The balancer at work: frames and load reports in, frames out, until stopped. One thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "frame_port.h"
#include "server_balancer.h"

namespace spillway::balancer {

struct Traffic {
  uint64_t batches = 0;      // of frames received
  uint64_t overflows = 0;    // frames lost because this program was too slow
  uint64_t send_failed = 0;  // frames that the kernel did not take
};

// A UDP socket for load reports at `port`, of either family. Errors: kConflict, kSystem.
[[nodiscard]] Result<int> OpenReportSocket(uint16_t port);

// Until `stop_fd` is readable. Errors: kSystem.
[[nodiscard]] Result<Traffic> Run(ServerBalancer& balancer, FramePort& port, int report_fd, int stop_fd);

// One flat object.
[[nodiscard]] nlohmann::ordered_json ToJson(const ServerBalancer& balancer, const Traffic& traffic);

}  // namespace spillway::balancer
