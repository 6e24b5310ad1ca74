// SPDX-License-Identifier: Apache-2.0
// ADDRESS:PORT as a socket address.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spillway::model {

struct Endpoint {
  sockaddr_storage storage{};
  socklen_t length = 0;
  uint16_t port = 0;
  [[nodiscard]] const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Numeric: "192.0.2.1:7000" or "[2001:db8::1]:7000"; nullopt: it is no such thing. Port 0 is for those who
// listen.
std::optional<Endpoint> ParseEndpoint(std::string_view text);

// The other side's address, without its port.
std::string PeerOf(int socket);

}  // namespace spillway::model
