// SPDX-License-Identifier: Apache-2.0
// A request on its way through a unit, with the answer that it is to become. Plain values.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>

#include "base/socket_address.h"
#include "wire.h"

namespace spillway::unit {

// Where an answer goes: a datagram's sender, or a TCP connection by its serial number (a connection that
// has gone takes its answers with it).
struct ReturnPath {
  int udp_fd = -1;  // -1: TCP
  base::SocketAddress peer;
  in6_pktinfo local6{};  // the address the request was sent to; used when the socket is bound to any
  in_pktinfo local4{};
  std::uint64_t connection = 0;
};

struct Job {
  Request request;
  std::int64_t arrived_ns = 0;  // at the kernel
  ReturnPath path;
  std::string bytes;  // of the answer: room for its head, then the payload as it came

  // Filled in by the workers.
  std::int64_t wait_ns = 0, service_ns = 0;
  std::int64_t due_ns = 0;   // when the answer should leave
  std::uint64_t result = 0;  // what was computed; 0 where nothing is
};

}  // namespace spillway::unit
