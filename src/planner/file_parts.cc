// SPDX-License-Identifier: Apache-2.0
#include "planner/file_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace spillway::planner {

using yaml::Field;
using yaml::Problems;

std::vector<std::pair<std::string, Field>> ReadEntries(Problems& problems, const Field& field,
                                                       const std::string& expected) {
  std::vector<std::pair<std::string, Field>> entries;
  problems.Note(field.path, field.line);
  if (!field.node.IsMap()) {
    problems.Add(field.line, field.path,
                 fmt::format("expected {}, got {}", expected, yaml::Describe(field.node)));
    return entries;
  }
  std::set<std::string> seen;
  for (const auto& entry : field.node) {
    const int line = entry.first.Mark().is_null() ? field.line : entry.first.Mark().line + 1;
    if (!entry.first.IsScalar() || !yaml::IsName(entry.first.Scalar())) {
      problems.Add(line, field.path,
                   fmt::format("expected a name of 1 to 64 letters, digits, '.', '_' or '-' as key, got {}",
                               yaml::Describe(entry.first)));
      continue;
    }
    const std::string& key = entry.first.Scalar();
    const std::string path = field.path + "." + key;
    if (!seen.insert(key).second) {
      problems.Add(line, path, "duplicate key");
      continue;
    }
    problems.Note(path, line);
    entries.push_back({key, Field{path, line, entry.second}});
  }
  return entries;
}

void TakeNumber(Problems& problems, double& into, const Field* field, double least, double most) {
  Take(into, field, [&](const Field& f) { return yaml::ReadNumber(problems, f, least, most); });
}

void TakeInteger(Problems& problems, int& into, const Field* field, int least, int most) {
  Take(into, field, [&](const Field& f) {
    return yaml::ReadInteger(problems, f, static_cast<uint64_t>(least), static_cast<uint64_t>(most));
  });
}

}  // namespace spillway::planner
