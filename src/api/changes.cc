// SPDX-License-Identifier: Apache-2.0
#include "api/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "base/yaml/problems.h"
#include "model/scalars.h"

namespace spillway::api {
namespace {

using nlohmann::json;

// The request's body as a JSON object with none but `known` keys.
Result<json> ParseObject(const std::string& body, std::initializer_list<const char*> known) {
  json object = json::parse(body, nullptr, false);
  std::string keys;
  for (const char* key : known) keys += fmt::format("{}\"{}\"", keys.empty() ? "" : ", ", key);
  if (object.is_discarded()) return Fail(ErrorCode::kBadInput, "the body is not JSON");
  if (!object.is_object() || object.empty())
    return Fail(ErrorCode::kBadInput, fmt::format("expected a JSON object with any of {}", keys));
  for (const auto& item : object.items())
    if (std::find(known.begin(), known.end(), item.key()) == known.end())
      return Fail(ErrorCode::kBadInput,
                  fmt::format("unknown key {}, expected any of {}", yaml::Excerpt(item.key()), keys));
  return object;
}

// What stands there instead of what was expected. Not what is nested in it: dump() needs stack for each
// level.
std::string Shown(const json& value) {
  return value.is_array() ? "a list" : value.is_object() ? "an object" : value.dump();
}

// Reads object[key], a word of an enum, into `to`.
template <class Enum, class Parse>
Result<void> ReadWord(const json& object, const char* key, Parse parse, const char* expected,
                      std::optional<Enum>& to) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  if (found->is_string()) to = parse(found->get<std::string>());
  if (to) return {};
  const std::string got = found->is_string() ? yaml::Excerpt(found->get<std::string>()) : Shown(*found);
  return Fail(ErrorCode::kBadInput, fmt::format("{}: expected {}, got {}", key, expected, got));
}

std::optional<spw_unit_status> ParseStatus(const std::string& word) {
  for (const spw_unit_status status : {SPW_UNIT_UP, SPW_UNIT_DRAINING, SPW_UNIT_DOWN})
    if (word == model::ToString(status)) return status;
  return std::nullopt;
}

// "a, b or c": the words of an enum with values 0..count-1.
template <class Enum>
std::string Words(int count) {
  std::string words;
  for (int i = 0; i < count; i++)
    words += (i == 0 ? "" : i + 1 == count ? " or " : ", ") + model::ToString(static_cast<Enum>(i));
  return words;
}

// A number of seconds, or a duration as the pool file writes it.
std::optional<uint32_t> ReadSeconds(const json& value) {
  if (value.is_string()) {
    const auto duration = yaml::ParseDuration(value.get<std::string>());
    if (!duration || duration->count() % 1000 != 0 || duration->count() / 1000 > UINT32_MAX)
      return std::nullopt;
    return static_cast<uint32_t>(duration->count() / 1000);
  }
  if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX) return std::nullopt;
  return value.get<uint32_t>();
}

}  // namespace

Result<UnitChange> ParseUnitChange(const std::string& body) {
  const auto object = ParseObject(body, {"status", "capacity", "forget_reports"});
  if (!object) return tl::make_unexpected(object.error());
  UnitChange change;
  if (const auto read = ReadWord(*object, "status", ParseStatus, "up, draining or down", change.status);
      !read)
    return tl::make_unexpected(read.error());
  if (const auto found = object->find("capacity"); found != object->end()) {
    if (!found->is_number() || !std::isfinite(found->get<double>()) || found->get<double>() <= 0)
      return Fail(ErrorCode::kBadInput, "capacity: expected a number above 0, got " + Shown(*found));
    change.capacity = found->get<double>();
  }
  if (const auto found = object->find("forget_reports"); found != object->end()) {
    if (!found->is_boolean())
      return Fail(ErrorCode::kBadInput, "forget_reports: expected true or false, got " + Shown(*found));
    change.forget_reports = found->get<bool>();
  }
  return change;
}

Result<ServiceChange> ParseServiceChange(const std::string& body) {
  const auto object = ParseObject(body, {"unit_policy", "server_policy", "idle"});
  if (!object) return tl::make_unexpected(object.error());
  ServiceChange change;
  const std::string units = Words<spw_unit_policy>(SPW_UNIT_POLICIES);
  const std::string servers = Words<spw_server_policy>(SPW_SERVER_POLICIES);
  const auto read =
      ReadWord(*object, "unit_policy", model::ParseUnitPolicy, units.c_str(), change.unit_policy)
          .and_then([&] {
            return ReadWord(*object, "server_policy", model::ParseServerPolicy, servers.c_str(),
                            change.server_policy);
          });
  if (!read) return tl::make_unexpected(read.error());
  if (const auto found = object->find("idle"); found != object->end()) {
    change.idle_s = ReadSeconds(*found);
    if (!change.idle_s || *change.idle_s > model::kMaxIdleSeconds)
      return Fail(ErrorCode::kBadInput,
                  "idle: expected whole seconds, as in 30 or \"30s\", of at most 4h, 0 for the protocol's "
                  "default, got " +
                      Shown(*found));
  }
  return change;
}

}  // namespace spillway::api
