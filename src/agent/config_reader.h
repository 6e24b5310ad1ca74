// SPDX-License-Identifier: Apache-2.0
// Strict reading of YAML: every key is known or refused, every value has its expected form. Reading
// throws ConfigError, which ParseAgentConfig alone catches; it never leaves this room.
#pragma once

#include <yaml-cpp/yaml.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace spillway::agent {

struct ConfigError {
  int line;  // 1-based
  std::string message;
};

// One mapping of the file. `name` is its key path ("meter"), empty at the top.
class MapReader {
 public:
  MapReader(const YAML::Node& node, std::string name, std::initializer_list<std::string_view> known);

  bool Has(std::string_view key) const;
  YAML::Node Require(std::string_view key, std::string_view expected) const;
  MapReader Map(std::string_view key, std::initializer_list<std::string_view> known) const;

  // Each returns `fallback` when the key is absent; bounds are inclusive.
  std::string Text(std::string_view key, std::string fallback) const;
  uint32_t Integer(std::string_view key, uint32_t fallback, uint32_t low, uint32_t high) const;
  double Number(std::string_view key, double fallback, double low, double high) const;
  std::chrono::nanoseconds Time(std::string_view key, std::chrono::nanoseconds fallback,
                                std::chrono::nanoseconds low, std::chrono::nanoseconds high) const;
  template <class T>
  T OneOf(std::string_view key, T fallback,
          std::initializer_list<std::pair<std::string_view, T>> words) const {
    if (!Has(key)) return fallback;
    const std::string text = Text(key, "");
    std::string expected;
    for (const auto& [word, value] : words) {
      if (text == word) return value;
      expected += (expected.empty() ? "" : " or ") + std::string(word);
    }
    FailAt(key, "expected " + expected);
  }

  [[noreturn]] void FailAt(std::string_view key, const std::string& message) const;

 private:
  std::string Path(std::string_view key) const;
  YAML::Node Find(std::string_view key) const;

  YAML::Node node_;
  std::string name_;
};

[[noreturn]] void FailAt(const YAML::Node& node, const std::string& key, const std::string& message);
std::string ScalarText(const YAML::Node& node, const std::string& key, const std::string& expected);

}  // namespace spillway::agent
