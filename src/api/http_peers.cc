// SPDX-License-Identifier: Apache-2.0
#include "http_peers.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <spdlog/spdlog.h>

#include <cstring>

namespace spillway::api {
namespace {

constexpr size_t kPrefix = 8;  // bytes

// Empty: it has none.
std::string Of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address == nullptr) return "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
    return text;
  }
  if (address->sa_family != AF_INET6) return "";
  in6_addr whole = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&whole)) {
    inet_ntop(AF_INET, whole.s6_addr + 12, text, sizeof(text));
    return text;
  }
  std::memset(whole.s6_addr + kPrefix, 0, sizeof(whole.s6_addr) - kPrefix);
  inet_ntop(AF_INET6, &whole, text, sizeof(text));
  return fmt::format("{}/64", text);
}

}  // namespace

bool HttpPeers::Admit(const sockaddr* address, Time now) {
  const std::string peer = Of(address);
  const auto known = connections_.find(peer);
  if (peer.empty() || known == connections_.end() || known->second < most_) return true;
  if (const auto kept_back = refusals_told_.Ask(now))
    spdlog::warn("{} has {} connections ({}): another is refused{}", peer, known->second, key_,
                 *kept_back == 0 ? "" : fmt::format("; {} more such lines were kept back", *kept_back));
  return false;
}

void HttpPeers::Began(const sockaddr* address) {
  if (const std::string peer = Of(address); !peer.empty()) ++connections_[peer];
}

void HttpPeers::Ended(const sockaddr* address) {
  const auto known = connections_.find(Of(address));
  if (known != connections_.end() && --known->second == 0) connections_.erase(known);
}

}  // namespace spillway::api
