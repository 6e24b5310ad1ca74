// SPDX-License-Identifier: Apache-2.0
// An IPv4 or IPv6 address with a port, as sockets take it. A value.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace spillway::base {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  // "192.0.2.1:53", "[2001:db8::1]:53": numeric; port 0 is for those who listen. Errors: kBadInput.
  [[nodiscard]] static Result<SocketAddress> Parse(std::string_view text);
  // "192.0.2.1" or "2001:db8::1", port 0. Errors: kBadInput.
  [[nodiscard]] static Result<SocketAddress> ParseHost(std::string_view text);
  // What `fd` is bound to; of length 0 if it cannot be told.
  [[nodiscard]] static SocketAddress OfSocket(int fd);
  // What it is connected to; likewise.
  [[nodiscard]] static SocketAddress OfPeer(int fd);

  [[nodiscard]] int family() const { return storage.ss_family; }
  [[nodiscard]] std::uint16_t port() const;
  void set_port(std::uint16_t port);
  [[nodiscard]] bool IsWildcard() const;
  [[nodiscard]] std::string Text() const;  // as Parse reads it
  [[nodiscard]] std::string Host() const;  // without the port, as ParseHost reads it
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

}  // namespace spillway::base
