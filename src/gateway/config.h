// SPDX-License-Identifier: Apache-2.0
// gateway.yaml in memory, and its parser (docs/gateway.md has every key). Errors are kBadInput, a line per
// problem. Plain values; tokens are read from their files.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gateway/broker/broker.h"
#include "gateway/controller_config.h"
#include "gateway/document.h"
#include "gateway/transport/executor_arrival.h"

namespace spillway::gateway {

// Who comes by RDMA from other machines.
struct RdmaOptions {
  std::string listen;                   // ADDRESS:PORT of executors; empty: none come
  std::string token;                    // who knows it may offer slices
  uint64_t memory = uint64_t{1} << 30;  // bytes of buffers for all executors
  std::string clients;                  // ADDRESS:PORT of clients' windows; empty: there are none
};

struct GatewayConfig {
  std::string http;                 // ADDRESS:PORT; empty: no HTTP
  std::string health;               // ADDRESS:PORT of health and metrics alone; empty: only with http's
  std::vector<std::string> frames;  // ADDRESS:PORT, or unix:PATH
  std::string executors;            // path of the UNIX socket of this machine's executors; empty: none come
  ExecutorTrust executor_trust;
  RdmaOptions rdma;
  std::optional<ControllerConfig> controller;
  BrokerOptions broker;
  std::vector<std::string> tokens;   // of each tenant; empty: the tenant needs none
  uint64_t most_request = 16 << 20;  // bytes of one request's inputs
  uint32_t connections = 256;        // of frames
  Duration idle =
      std::chrono::seconds(60);  // a client that is silent for longer, with nothing asked, is let go
  Duration receive = std::chrono::seconds(30);  // a request that has begun is to be here within
  Duration start = std::chrono::minutes(15);    // an executor that has joined is to be ready within
  // From SIGTERM on: readiness is gone; requests are taken for so long, then what is here may take so long.
  Duration drain_serve{0};
  Duration drain_finish = std::chrono::seconds(10);
  // Stays awake so long for slices that are about to answer.
  Duration spin = std::chrono::microseconds(200);
  yaml::Places places;  // of http, health, frames, executors and rdma
};

[[nodiscard]] Result<GatewayConfig> ParseGatewayConfig(const std::string& yaml, const std::string& file_name);
[[nodiscard]] Result<GatewayConfig> LoadGatewayConfig(const std::string& path);

// The tenant that a name and a token open. A tenant without a token may be named by anybody; without a name
// it is AuthenticateByToken's.
std::optional<uint32_t> Authenticate(const GatewayConfig& config, std::string_view name,
                                     std::string_view token);
// The tenant whose token this is; without one, the first tenant that needs none.
std::optional<uint32_t> AuthenticateByToken(const GatewayConfig& config, std::string_view token);

}  // namespace spillway::gateway
