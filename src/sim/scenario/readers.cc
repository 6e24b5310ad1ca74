// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/readers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/yaml/scalars.h"

namespace spillway::sim {

using yaml::Field;
using yaml::Problems;

std::optional<std::vector<double>> ReadNumbers(Problems& problems, const Field& field, double least,
                                               double most, bool ascending) {
  const auto entries = yaml::ReadList(problems, field, "a list of numbers");
  if (!field.node.IsSequence()) return std::nullopt;
  if (entries.empty())
    problems.Add(field.line, field.path, "expected at least one number, got an empty list");
  std::vector<double> numbers;
  for (const Field& entry : entries) {
    const auto number = yaml::ReadNumber(problems, entry, least, most);
    if (!number) return std::nullopt;
    if (ascending && !numbers.empty() && *number <= numbers.back()) {
      problems.Add(entry.line, entry.path,
                   fmt::format("expected more than the {} before it, got \"{}\"", numbers.back(), *number));
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

void CheckOwnName(Problems& problems, const Field& field, const std::string& name,
                  std::set<std::string>& taken) {
  if (!taken.insert(name).second)
    problems.Add(field.line, field.path, fmt::format("duplicate name \"{}\"", name));
}

}  // namespace spillway::sim
