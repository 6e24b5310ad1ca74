// SPDX-License-Identifier: Apache-2.0
// Where a switch listens: IPv4 or IPv6 address and UDP port.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>

namespace spillway::agent {

struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;
  std::string text;  // as it was written

  // "192.0.2.1:9870", "[2001:db8::1]:9870"; without a port, the report port's default.
  static std::optional<Endpoint> Parse(const std::string& text);
};

}  // namespace spillway::agent
