// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/trace_reader.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <sstream>

#include "base/yaml/documents.h"
#include "base/yaml/problems.h"

namespace spillway::sim {

Result<std::vector<double>> ParseTrace(const std::string& text, const std::string& file_name) {
  std::vector<double> times;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    number++;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    double time = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), time);
    const bool understood = error == std::errc() && end == line.data() + line.size() && std::isfinite(time);
    if (!understood || time < 0 || (!times.empty() && time < times.back()))
      return Fail(
          ErrorCode::kBadInput,
          fmt::format("{}:{}: expected a time in seconds{}, got {}", file_name, number,
                      times.empty() ? "" : fmt::format(", {} or later", times.back()), yaml::Excerpt(line)));
    times.push_back(time);
  }
  if (times.size() < 2 || times.back() <= times.front())
    return Fail(ErrorCode::kBadInput, fmt::format("{}:{}: expected two different times at least, got {}",
                                                  file_name, std::max(number, 1), times.size()));
  return times;
}

Result<std::vector<double>> LoadTrace(const std::string& path) {
  const auto text = yaml::ReadInputFile(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseTrace(*text, path);
}

}  // namespace spillway::sim
