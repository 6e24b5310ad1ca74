// SPDX-License-Identifier: Apache-2.0
// What the kernel alone takes for as many packets as the checks of a row: a loop that does nothing but the
// system calls, for as many sockets, in turns of 10 ms. No answer is read, none is missed.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <sys/socket.h>

#include "base/error.h"
#include "model/health.h"

namespace spillway::bench {

struct FloorLoad {
  model::CheckKind kind = model::CheckKind::kTcp;  // kTcp, kUdp or kDns
  std::vector<sockaddr_storage> units;             // IPv4
  std::chrono::milliseconds interval{1000};
  std::chrono::seconds window{4};
};

struct Floor {
  double packets_per_s = 0;  // questions; as many answers
  double cpu_pct = 0;        // of one core
};

// tcp: a socket each time, a connection, a reset. udp, dns: a connected socket per unit, a datagram each way.
// Errors: kSystem.
[[nodiscard]] Result<Floor> MeasureFloor(const FloorLoad& load);

// CPU time of this process so far, seconds.
double CpuSeconds();

}  // namespace spillway::bench
