// SPDX-License-Identifier: Apache-2.0
#include "scalars.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace spillway::model {

bool BelongsToAHost(const Address& address) {
  const auto& bytes = address.bytes;
  bool multicast = address.family == 4 ? (bytes[0] & 0xf0) == 0xe0 : bytes[0] == 0xff;
  bool broadcast = address.family == 4 &&
                   std::all_of(bytes.begin(), bytes.begin() + 4, [](uint8_t byte) { return byte == 0xff; });
  bool unspecified = std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
  return !multicast && !broadcast && !unspecified;
}

std::optional<ServicePort> ParseServicePort(std::string_view text) {
  ServicePort port;
  if (text.starts_with("udp/"))
    port.protocol = Protocol::kUdp;
  else if (!text.starts_with("tcp/"))
    return std::nullopt;
  const char *const first = text.data() + 4, *const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, port.port);
  if (error != std::errc() || end != last || port.port == 0) return std::nullopt;
  return port;
}

bool IsInterfaceName(const std::string& text) {
  constexpr size_t kLongest = 15;  // IFNAMSIZ less the NUL
  if (text.empty() || text.size() > kLongest || text == "." || text == "..") return false;
  return text.find_first_of("/: \t\n\v\f\r") == text.npos &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

std::optional<Address> ReadAddress(yaml::Problems& problems, const yaml::Field& field) {
  std::optional<Address> value;
  if (field.node.IsScalar()) value = Address::Parse(field.node.Scalar());
  if (!value)
    return yaml::Refuse(
        problems, field,
        "an IPv4 or IPv6 address without port or prefix length (IPv4-mapped ones in IPv4 spelling)");
  if (!BelongsToAHost(*value)) return yaml::Refuse(problems, field, "the address of a host");
  return value;
}

std::optional<ServicePort> ReadServicePort(yaml::Problems& problems, const yaml::Field& field) {
  std::optional<ServicePort> value;
  if (field.node.IsScalar()) value = ParseServicePort(field.node.Scalar());
  if (!value) return yaml::Refuse(problems, field, "tcp/PORT or udp/PORT with a port from 1 to 65535");
  return value;
}

}  // namespace spillway::model
