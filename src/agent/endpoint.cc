// SPDX-License-Identifier: Apache-2.0
#include "agent/endpoint.h"

#include <charconv>

#include "base/socket_address.h"
#include "core/report.h"

namespace spillway::agent {
namespace {

std::optional<uint16_t> ParsePort(const std::string& text) {
  uint16_t port = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

}  // namespace

std::optional<Endpoint> Endpoint::Parse(const std::string& text) {
  std::string host = text;
  std::optional<uint16_t> port = SPW_REPORT_PORT;
  if (!text.empty() && text[0] == '[') {
    const size_t close = text.find(']');
    if (close == std::string::npos) return std::nullopt;
    host = text.substr(1, close - 1);
    if (close + 1 < text.size()) {
      if (text[close + 1] != ':') return std::nullopt;
      port = ParsePort(text.substr(close + 2));
    }
  } else if (const size_t colon = text.find(':');
             colon != std::string::npos && text.find(':', colon + 1) == std::string::npos) {
    host = text.substr(0, colon);
    port = ParsePort(text.substr(colon + 1));
  }
  auto address = base::SocketAddress::ParseHost(host);
  if (!port || !address) return std::nullopt;
  address->set_port(*port);
  Endpoint endpoint;
  endpoint.text = text;
  endpoint.address = address->storage;
  endpoint.length = address->length;
  return endpoint;
}

}  // namespace spillway::agent
