// SPDX-License-Identifier: Apache-2.0
#include "base/socket_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

namespace spillway::base {

namespace {

sockaddr_in& V4(sockaddr_storage& storage) { return reinterpret_cast<sockaddr_in&>(storage); }
sockaddr_in6& V6(sockaddr_storage& storage) { return reinterpret_cast<sockaddr_in6&>(storage); }
const sockaddr_in& V4(const sockaddr_storage& s) { return reinterpret_cast<const sockaddr_in&>(s); }
const sockaddr_in6& V6(const sockaddr_storage& s) { return reinterpret_cast<const sockaddr_in6&>(s); }

}  // namespace

Result<SocketAddress> SocketAddress::ParseHost(std::string_view text) {
  const std::string host(text);
  SocketAddress address;
  if (::inet_pton(AF_INET, host.c_str(), &V4(address.storage).sin_addr) == 1) {
    address.storage.ss_family = AF_INET;
    address.length = sizeof(sockaddr_in);
  } else if (::inet_pton(AF_INET6, host.c_str(), &V6(address.storage).sin6_addr) == 1) {
    address.storage.ss_family = AF_INET6;
    address.length = sizeof(sockaddr_in6);
  } else {
    return Fail(
        ErrorCode::kBadInput,
        fmt::format("\"{}\": expected a numeric IPv4 or IPv6 address (host names are not resolved)", text));
  }
  return address;
}

Result<SocketAddress> SocketAddress::Parse(std::string_view text) {
  const auto refuse = [&] {
    return Fail(ErrorCode::kBadInput,
                fmt::format("\"{}\": expected ADDRESS:PORT, e.g. 192.0.2.1:53 or [2001:db8::1]:53", text));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return refuse();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const bool brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size()) return refuse();
  Result<SocketAddress> address = ParseHost(host);
  if (!address || (address->family() == AF_INET6) != brackets) return refuse();
  address->set_port(port);
  return address;
}

SocketAddress SocketAddress::OfSocket(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (::getsockname(fd, address.get(), &address.length) != 0) address.length = 0;
  return address;
}

SocketAddress SocketAddress::OfPeer(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (::getpeername(fd, address.get(), &address.length) != 0) address.length = 0;
  return address;
}

std::uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET ? V4(storage).sin_port : V6(storage).sin6_port);
}

void SocketAddress::set_port(std::uint16_t port) {
  (family() == AF_INET ? V4(storage).sin_port : V6(storage).sin6_port) = htons(port);
}

bool SocketAddress::IsWildcard() const {
  if (family() == AF_INET) return V4(storage).sin_addr.s_addr == INADDR_ANY;
  return IN6_IS_ADDR_UNSPECIFIED(&V6(storage).sin6_addr);
}

std::string SocketAddress::Host() const {
  char host[INET6_ADDRSTRLEN] = {};
  if (family() == AF_INET)
    ::inet_ntop(AF_INET, &V4(storage).sin_addr, host, sizeof host);
  else
    ::inet_ntop(AF_INET6, &V6(storage).sin6_addr, host, sizeof host);
  return host;
}

std::string SocketAddress::Text() const {
  return fmt::format(fmt::runtime(family() == AF_INET ? "{}:{}" : "[{}]:{}"), Host(), port());
}

}  // namespace spillway::base
