// SPDX-License-Identifier: Apache-2.0
// The pool file's own scalars, as base/yaml/scalars.h: each function reads one, or tells what it expected and
// gives nullopt. Threading: none keeps state.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/yaml/scalars.h"
#include "pool.h"

namespace spillway::model {

// "udp/53".
std::optional<ServicePort> ParseServicePort(std::string_view text);
// That an interface of Linux may have.
bool IsInterfaceName(const std::string& text);
// Not what no host can own: unspecified, multicast and broadcast addresses.
bool BelongsToAHost(const Address& address);
// Refuses what no host can own.
std::optional<Address> ReadAddress(yaml::Problems& problems, const yaml::Field& field);
std::optional<ServicePort> ReadServicePort(yaml::Problems& problems, const yaml::Field& field);

// One of the words of an enum whose values are 0 .. count - 1; `parse` as ParseMode and its like in pool.h.
template <class Enum>
std::optional<Enum> ReadWord(yaml::Problems& problems, const yaml::Field& field,
                             std::optional<Enum> (*parse)(const std::string&), int count) {
  std::string words;
  for (int value = 0; value < count; value++)
    words += (value == 0 ? "" : ", ") + ToString(static_cast<Enum>(value));
  auto text = yaml::ReadText(problems, field, "one of " + words);
  if (!text) return std::nullopt;
  auto value = parse(*text);
  if (!value)
    problems.Add(field.line, field.path, "expected one of " + words + ", got " + yaml::Describe(field.node));
  return value;
}

}  // namespace spillway::model
