// SPDX-License-Identifier: Apache-2.0
// What catalogue and workload files have in common: one YAML document each, read whole or not at all,
// and maps whose keys are names.
// Values are read by base/yaml/scalars.h. Threading: none keeps state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/yaml/reader.h"
#include "base/yaml/scalars.h"

namespace spillway::planner {

using yaml::ReadChoice;
using yaml::Take;

// Of prices, powers, sizes and rates: beyond, somebody slipped.
inline constexpr double kMaxQuantity = 1e12;
// Of what must be greater than 0.
inline constexpr double kMinPositive = 1e-9;

// The entries of a map whose keys are names that the file chooses. Tells of what is no map, of keys that
// are no names, and of repeated ones.
std::vector<std::pair<std::string, yaml::Field>> ReadEntries(yaml::Problems& problems,
                                                             const yaml::Field& field,
                                                             const std::string& expected);

// A number in [least, most], or `into` as it was.
void TakeNumber(yaml::Problems& problems, double& into, const yaml::Field* field, double least, double most);
void TakeInteger(yaml::Problems& problems, int& into, const yaml::Field* field, int least, int most);

// At least one number, ascending.
template <class Number>
std::vector<Number> ReadAscending(yaml::Problems& problems, const yaml::Field& field, double least,
                                  double most) {
  std::vector<Number> numbers;
  for (const yaml::Field& entry : yaml::ReadList(problems, field, "a list of numbers, ascending")) {
    const auto number = std::is_integral_v<Number> ? [&]() -> std::optional<double> {
      const auto whole =
          yaml::ReadInteger(problems, entry, static_cast<uint64_t>(least), static_cast<uint64_t>(most));
      return whole ? std::optional<double>(static_cast<double>(*whole)) : std::nullopt;
    }()
        : yaml::ReadNumber(problems, entry, least, most);
    if (!number) continue;
    if (!numbers.empty() && *number <= static_cast<double>(numbers.back()))
      problems.Add(entry.line, entry.path, "expected more than the number before it");
    numbers.push_back(static_cast<Number>(*number));
  }
  if (field.node.IsSequence() && field.node.size() == 0)
    problems.Add(field.line, field.path, "expected at least one number, got an empty list");
  return numbers;
}

}  // namespace spillway::planner
