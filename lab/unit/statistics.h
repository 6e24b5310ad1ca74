// SPDX-License-Identifier: Apache-2.0
// What a unit counts. Plain fields, written by the server's thread alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace spillway::unit {

struct Statistics {
  std::uint64_t received = 0;           // well-formed requests
  std::uint64_t answered = 0;           // answers handed to the kernel
  std::uint64_t dropped = 0;            // lost because the queue was full; normal beyond capacity
  std::uint64_t malformed = 0;          // datagrams and connections that do not speak the protocol
  std::uint64_t send_failed = 0;        // UDP answers the kernel refused, e.g. no route back
  std::uint64_t abandoned = 0;          // TCP answers whose connection had gone
  std::uint64_t connections = 0;        // TCP connections accepted
  std::uint64_t waiting_max = 0;        // longest queue
  double service_ns = 0, wait_ns = 0;   // sums over requests that were served
  double late_ns = 0, late_max_ns = 0;  // how long after its time an answer left: the machine's doing

  void CountLateness(std::int64_t ns) {
    const auto late = static_cast<double>(std::max<std::int64_t>(ns, 0));
    late_ns += late;
    late_max_ns = std::max(late_max_ns, late);
  }
};

// One flat object; times carry their unit in the key.
[[nodiscard]] nlohmann::ordered_json ToJson(const Statistics& statistics, const std::string& unit,
                                            std::size_t workers, std::size_t waiting_now, double uptime_s);

}  // namespace spillway::unit
