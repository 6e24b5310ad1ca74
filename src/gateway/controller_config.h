// SPDX-License-Identifier: Apache-2.0
// `controller:` in gateway.yaml: the gateway places models on GPU hosts itself. Plain values.
#pragma once

#include <chrono>
#include <string>

#include "base/yaml/reader.h"
#include "gateway/document.h"
#include "scheduler/controller/controller.h"

namespace spillway::gateway {

struct ControllerConfig {
  std::string socket;  // path: operators and node agents of this machine
  std::string listen;  // ADDRESS:PORT for those of others, who show the token; empty: none come
  std::string token;
  unsigned connections_per_address = 64;  // by `listen`
  std::string state;                      // file: the fleet, which outlives the program
  scheduler::ControllerOptions options;
  std::chrono::milliseconds silent_after{5000};  // a host that says nothing for so long is lost
  yaml::Places places;                           // of socket, listen and state
};

[[nodiscard]] ControllerConfig ReadController(yaml::Problems& problems, const yaml::Field& field,
                                              const std::string& file_name);

}  // namespace spillway::gateway
