// SPDX-License-Identifier: Apache-2.0
// A gateway to which executors come over an RDMA device: rxe0 in the guest (tests/guest/run --rdma), or a
// real one by SPILLWAY_VERBS_ADDRESS.
#pragma once

#include <cstdlib>
#include <string>

#include "gateway/executor/program_slice.h"
#include "tests/unit/gateway/gateway_bed.h"

namespace spillway::gateway {

inline constexpr const char* kToken = "executors-token";

inline std::string DeviceAddress() {
  const char* given = std::getenv("SPILLWAY_VERBS_ADDRESS");
  return given != nullptr ? given : "192.0.2.1";
}

inline GatewayConfig RemoteConfig(const std::string& port = "0") {
  GatewayConfig config = GatewayBed::Config();
  config.most_request = 64 << 20;
  config.rdma.listen = DeviceAddress() + ":" + port;
  config.rdma.token = kToken;
  return config;
}

inline GatewayAddress AddressOf(const GatewayBed& bed) {
  return {std::string(kRdmaPrefix) + bed.rdma_address, kToken};
}

// Rows of bytes, and as many back.
inline ModelCard ProgramModel(int64_t row_bytes = 8, int64_t rows = 4, int64_t output_bytes = 0) {
  ModelCard card;
  card.name = "program";
  card.inputs = {{"x", DataType::kU8, {-1, row_bytes}}};
  card.outputs = {{"y", DataType::kU8, {-1, output_bytes > 0 ? output_bytes : row_bytes}}};
  card.most_rows = rows;
  return card;
}

}  // namespace spillway::gateway
