// SPDX-License-Identifier: Apache-2.0
// Answers that wait for their time to leave. Not thread-safe.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "socket_address.h"

namespace spillway::unit {

// Where an answer goes: a datagram's sender, or a TCP connection by its serial number (a connection that
// has gone takes its answers with it).
struct ReturnPath {
  int udp_fd = -1;  // -1: TCP
  SocketAddress peer;
  in6_pktinfo local6{};  // the address the request was sent to; used when the socket is bound to any
  in_pktinfo local4{};
  std::uint64_t connection = 0;
};

struct PendingAnswer {
  std::int64_t due_ns = 0;
  std::uint64_t order = 0;  // of arrival; answers due at the same time leave in it
  ReturnPath path;
  std::string bytes;
};

class Pending {
 public:
  void Add(PendingAnswer answer);
  // The earliest answer, if its time has come.
  [[nodiscard]] std::optional<PendingAnswer> TakeDue(std::int64_t now_ns);
  [[nodiscard]] std::optional<std::int64_t> NextDueNs() const;

 private:
  std::uint64_t added_ = 0;
  std::vector<PendingAnswer> heap_;  // earliest first
};

}  // namespace spillway::unit
