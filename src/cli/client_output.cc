// SPDX-License-Identifier: Apache-2.0
#include "client_output.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "command/exit_code.h"

namespace spillway::command {
namespace {

Result<nlohmann::json> ParseReply(const Result<std::string>& body, const std::string& program) {
  if (!body) return tl::make_unexpected(body.error());
  auto json = nlohmann::json::parse(*body, nullptr, false);
  if (json.is_discarded()) return Fail(ErrorCode::kSystem, program + "'s answer is not JSON");
  return json;
}

}  // namespace

Result<std::string> GetText(api::Client& client, const std::string& target) {
  return api::Client::Accept(client.Get(target), client.program());
}

Result<nlohmann::json> GetJson(api::Client& client, const std::string& target) {
  return ParseReply(GetText(client, target), client.program());
}

Result<nlohmann::json> PostJson(api::Client& client, const std::string& target, const std::string& body) {
  return ParseReply(api::Client::Accept(client.Post(target, body), client.program()), client.program());
}

Result<std::string> UnitTarget(const std::string& name) {
  std::vector<std::string> parts;
  std::istringstream text(name);
  for (std::string part; std::getline(text, part, '/');) parts.push_back(part);
  if (parts.size() != 3 || parts[0].empty() || parts[1].empty() || parts[2].empty() || name.back() == '/')
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}: expected POOL/SERVER/UNIT (spillway show units lists them)", name));
  return fmt::format("/v1/units/{}/{}/{}", api::Client::Encode(parts[0]), api::Client::Encode(parts[1]),
                     api::Client::Encode(parts[2]));
}

std::string Scaled(double value, const char* unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T"};
  size_t prefix = 0;
  while (std::abs(value) >= 1000 && prefix + 1 < std::size(kPrefixes)) {
    value /= 1000;
    prefix++;
  }
  const int decimals = prefix == 0 && value == std::floor(value) ? 0 : std::abs(value) >= 100 ? 0 : 1;
  const std::string suffix = std::string(kPrefixes[prefix]) + unit;
  return fmt::format("{:.{}f}{}{}", value, decimals, suffix.empty() ? "" : " ", suffix);
}

}  // namespace spillway::command
