// SPDX-License-Identifier: Apache-2.0
#include "agent/config_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "base/duration.h"

namespace spillway::agent {
namespace {

using std::chrono::nanoseconds;

std::string Join(std::initializer_list<std::string_view> words) {
  std::string joined;
  for (std::string_view word : words) joined += (joined.empty() ? "" : ", ") + std::string(word);
  return joined;
}

std::optional<double> ParseNumber(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

void FailAt(const YAML::Node& node, const std::string& key, const std::string& message) {
  throw ConfigError{node.Mark().line + 1, key.empty() ? message : key + ": " + message};
}

std::string ScalarText(const YAML::Node& node, const std::string& key, const std::string& expected) {
  if (!node.IsScalar() || node.Scalar().empty()) FailAt(node, key, "expected " + expected);
  return node.Scalar();
}

MapReader::MapReader(const YAML::Node& node, std::string name, std::initializer_list<std::string_view> known)
    : node_(node), name_(std::move(name)) {
  if (!node_.IsMap()) agent::FailAt(node_, name_, "expected a mapping with keys " + Join(known));
  std::set<std::string> seen;
  for (const auto& pair : node_) {
    const std::string key = ScalarText(pair.first, name_, "a key");
    if (std::find(known.begin(), known.end(), key) == known.end())
      agent::FailAt(pair.first, Path(key), "unknown key; expected one of " + Join(known));
    if (!seen.insert(key).second) agent::FailAt(pair.first, Path(key), "expected once, found twice");
  }
}

std::string MapReader::Path(std::string_view key) const {
  return name_.empty() ? std::string(key) : name_ + "." + std::string(key);
}

YAML::Node MapReader::Find(std::string_view key) const {
  for (const auto& pair : node_)
    if (pair.first.Scalar() == key) return pair.second;
  return YAML::Node(YAML::NodeType::Undefined);
}

bool MapReader::Has(std::string_view key) const { return Find(key).IsDefined(); }

YAML::Node MapReader::Require(std::string_view key, std::string_view expected) const {
  YAML::Node node = Find(key);
  if (!node.IsDefined()) agent::FailAt(node_, Path(key), fmt::format("missing; expected {}", expected));
  return node;
}

MapReader MapReader::Map(std::string_view key, std::initializer_list<std::string_view> known) const {
  return MapReader(Find(key), Path(key), known);
}

void MapReader::FailAt(std::string_view key, const std::string& message) const {
  const YAML::Node node = Find(key);
  agent::FailAt(node.IsDefined() ? node : node_, Path(key), message);
}

std::string MapReader::Text(std::string_view key, std::string fallback) const {
  if (!Has(key)) return fallback;
  return ScalarText(Find(key), Path(key), "a word");
}

uint32_t MapReader::Integer(std::string_view key, uint32_t fallback, uint32_t low, uint32_t high) const {
  if (!Has(key)) return fallback;
  const std::string expected = fmt::format("an integer, {}..{}", low, high);
  const std::string text = ScalarText(Find(key), Path(key), expected);
  uint32_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    FailAt(key, fmt::format("expected {}, not '{}'", expected, text));
  return value;
}

double MapReader::Number(std::string_view key, double fallback, double low, double high) const {
  if (!Has(key)) return fallback;
  const std::string expected = fmt::format("a number, {}..{}", low, high);
  const std::string text = ScalarText(Find(key), Path(key), expected);
  const auto value = ParseNumber(text);
  if (!value || *value < low || *value > high)
    FailAt(key, fmt::format("expected {}, not '{}'", expected, text));
  return *value;
}

nanoseconds MapReader::Time(std::string_view key, nanoseconds fallback, nanoseconds low,
                            nanoseconds high) const {
  if (!Has(key)) return fallback;
  const std::string expected = fmt::format("a time with its unit, {}..{}, such as 20ms",
                                           base::DurationText(low), base::DurationText(high));
  const std::string text = ScalarText(Find(key), Path(key), expected);
  const auto value = base::ParseDuration(text);
  if (!value || *value < low || *value > high)
    FailAt(key, fmt::format("expected {}, not '{}'", expected, text));
  return *value;
}

}  // namespace spillway::agent
