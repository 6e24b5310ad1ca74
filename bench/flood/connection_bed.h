// SPDX-License-Identifier: Apache-2.0
// Real connections beside a packet generator: a testbed in network namespaces, with spillwayd, agents, and a
// server of two units behind each of two addresses; TCP clients that ask which unit answers; and
// raw packets from the clients' namespace. Needs root. One thread, the program's main one.
#pragma once

#include <cstdint>
#include <functional>

#include "bench/flood/packet_bed.h"

namespace spillway::bench {

struct ConnectionCase {
  FloodCase flood;  // as fast as it says, as far as the machine can
  uint32_t flow_table_entries = 65536;
};

// A testbed of its own, which is gone afterwards. `moved`: connections that were answered by another unit
// than before, reset, or not answered within ten seconds after the flood; new ones count as connected if they
// were answered within five. Errors: kUnavailable, kSystem ("interrupted").
[[nodiscard]] Result<FloodOutcome> PlayConnections(const ConnectionCase& one,
                                                   const std::function<bool(double)>& on_progress);

}  // namespace spillway::bench
