// SPDX-License-Identifier: Apache-2.0
#include "endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <string>

namespace spillway::model {

std::optional<Endpoint> ParseEndpoint(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc() || rest != end) return std::nullopt;
  std::string host(text.substr(0, colon));
  Endpoint endpoint;
  endpoint.port = port;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    auto* inet = reinterpret_cast<sockaddr_in6*>(&endpoint.storage);
    host = host.substr(1, host.size() - 2);
    inet->sin6_family = AF_INET6;
    inet->sin6_port = htons(port);
    endpoint.length = sizeof(*inet);
    if (inet_pton(AF_INET6, host.c_str(), &inet->sin6_addr) != 1) return std::nullopt;
    return endpoint;
  }
  auto* inet = reinterpret_cast<sockaddr_in*>(&endpoint.storage);
  inet->sin_family = AF_INET;
  inet->sin_port = htons(port);
  endpoint.length = sizeof(*inet);
  if (inet_pton(AF_INET, host.c_str(), &inet->sin_addr) != 1) return std::nullopt;
  return endpoint;
}

std::string PeerOf(int socket) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  char text[INET6_ADDRSTRLEN] = "an unknown address";
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) == 0)
    inet_ntop(peer.ss_family,
              peer.ss_family == AF_INET6
                  ? static_cast<const void*>(&reinterpret_cast<sockaddr_in6*>(&peer)->sin6_addr)
                  : static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(&peer)->sin_addr),
              text, sizeof(text));
  return text;
}

}  // namespace spillway::model
