// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "model/scalars.h"
#include "spec_reader.h"

namespace spillway::lab {
namespace {

std::optional<double> ParseNumber(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<Micros> ParseMicros(std::string_view text) {
  if (text == "0") return Micros(0);
  static constexpr std::pair<std::string_view, double> kUnits[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}};
  for (const auto& [unit, scale] : kUnits) {
    if (!text.ends_with(unit)) continue;
    auto number = ParseNumber(text.substr(0, text.size() - unit.size()));
    if (number && *number >= 0 && *number * scale < 1e15) return Micros(std::llround(*number * scale));
  }
  return std::nullopt;
}

std::string Words(Micros time) {
  if (time.count() % 1'000'000 == 0) return fmt::format("{}s", time.count() / 1'000'000);
  if (time.count() % 1000 == 0) return fmt::format("{}ms", time.count() / 1000);
  return fmt::format("{}us", time.count());
}

}  // namespace

std::optional<Micros> ReadMicros(model::Problems& problems, const model::Field& field, Micros least,
                                 Micros most) {
  const std::string expected = fmt::format("a time from {} to {}, such as 1ms", Words(least), Words(most));
  auto text = model::ReadText(problems, field, expected);
  if (!text) return std::nullopt;
  auto value = ParseMicros(*text);
  if (value && *value >= least && *value <= most) return value;
  problems.Add(field.line, field.path,
               fmt::format("expected {}, got {}", expected, model::Describe(field.node)));
  return std::nullopt;
}

std::optional<double> ReadNumber(model::Problems& problems, const model::Field& field, double least,
                                 double most) {
  const std::string expected = fmt::format("a number from {} to {}", least, most);
  auto text = model::ReadText(problems, field, expected);
  if (!text) return std::nullopt;
  auto value = ParseNumber(*text);
  if (value && *value >= least && *value <= most) return value;
  problems.Add(field.line, field.path,
               fmt::format("expected {}, got {}", expected, model::Describe(field.node)));
  return std::nullopt;
}

}  // namespace spillway::lab
