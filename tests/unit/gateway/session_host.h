// SPDX-License-Identifier: Apache-2.0
// What a session under test has around it: the bed's clock and broker; nobody is told, and every tenant let
// in.
#pragma once

#include <string_view>

#include "broker_bed.h"
#include "gateway/session.h"

namespace spillway::gateway {

// All of them outlive the host.
inline SessionHost HostOf(const GatewayConfig& config, BrokerBed& bed, RegionTable& regions,
                          WindowListener* remote_windows = nullptr) {
  return {config,
          bed.broker,
          regions,
          [&bed] { return bed.now; },
          [](uint64_t) {},
          [](uint64_t, std::string_view) {},
          [](uint32_t) { return true; },
          remote_windows};
}

}  // namespace spillway::gateway
