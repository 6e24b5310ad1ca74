// SPDX-License-Identifier: Apache-2.0
// The gateway's load, told to the switches as an agent does: GPUs behind a gateway are a unit like any other.
// The measure is the share of all living slices' cells that are in use; with no living slice it is 1. The
// file
// (`--report`) is read by agent/config.h as MeteredBy::kProgram.
#pragma once

#include <cstdint>
#include <thread>

#include "agent/config.h"
#include "base/mutex.h"
#include "gateway/server.h"

namespace spillway::gateway {

// What an agent would read of the gateway. On the server's thread.
struct GatewayLoad {
  double share = 1;
  uint32_t queue = 0;      // requests that wait or run
  uint64_t completed = 0;  // answered with a result, ever
};
GatewayLoad LoadOf(const Broker& broker);

// A thread that looks and reports every report.period, from the constructor to the destructor, which comes
// before the server's.
class GatewayReport {
 public:
  // `config`: of meter kind cpu, whose threshold is a share, too.
  GatewayReport(Server& server, const agent::AgentConfig& config);
  ~GatewayReport();
  GatewayReport(const GatewayReport&) = delete;
  GatewayReport& operator=(const GatewayReport&) = delete;

 private:
  void Loop(agent::AgentConfig config);

  Server& server_;
  base::Mutex mutex_;
  base::Condition changed_;
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace spillway::gateway
