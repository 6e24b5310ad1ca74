// SPDX-License-Identifier: Apache-2.0
// spillway-nic-balancer's command line. Pure but for CLI11's own help text.
#pragma once

#include <cstdint>
#include <string>

#include "request_packet.h"
#include "server_balancer.h"

namespace CLI {
class App;
}

namespace spillway::balancer {

struct Options {
  std::string pool_file, interface;
  ServerChoice choice;
  Mac mac{};
  uint16_t report_port = 0;  // 0: as the pool file says
};

// Declares the options on `app`; `options` is filled when it parses and outlives it.
void AddOptions(CLI::App& app, Options& options);

}  // namespace spillway::balancer
