// SPDX-License-Identifier: Apache-2.0
#include "base/yaml/scalars.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/duration.h"
#include "base/paths.h"

namespace spillway::yaml {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// The whole text as a number; from_chars knows no signs, spaces or locale.
template <class Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A scalar written without quotes: "5" in quotes is a text, not a number.
bool IsPlain(const YAML::Node& node) { return node.IsScalar() && node.Tag() != "!"; }

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::optional<double> ParseFinite(std::string_view text) {
  auto value = ParseNumber<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace

std::nullopt_t Refuse(Problems& problems, const Field& field, std::string_view expected) {
  std::string got = Describe(field.node);
  if (field.node.IsScalar() && !IsPlain(field.node)) got = "the text " + got;
  problems.Add(field.line, field.path, fmt::format("expected {}, got {}", expected, got));
  return std::nullopt;
}

// Whole numbers of milliseconds and more, written without a point.
std::optional<milliseconds> ParseDuration(std::string_view text) {
  if (text.find_first_of(".e") != text.npos) return std::nullopt;
  const auto time = base::ParseDuration(text);
  if (!time || *time % milliseconds(1) != nanoseconds(0)) return std::nullopt;
  return std::chrono::duration_cast<milliseconds>(*time);
}

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= 64 && IsAlphanumeric(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '.' || c == '_' || c == '-'; });
}

std::optional<std::string> ReadText(Problems& problems, const Field& field, std::string_view expected) {
  if (!field.node.IsScalar()) return Refuse(problems, field, expected);
  return field.node.Scalar();
}

std::optional<std::string> ReadPath(Problems& problems, const Field& field, std::string_view expected,
                                    const std::filesystem::path& folder) {
  const auto text = ReadText(problems, field, expected);
  if (!text) return std::nullopt;
  const bool good = !text->empty() && std::all_of(text->begin(), text->end(),
                                                  [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
  if (good) return base::AbsolutePath(folder / *text);
  problems.Add(field.line, field.path, fmt::format("expected {}, got {}", expected, Excerpt(*text)));
  return std::nullopt;
}

std::optional<std::string> ReadName(Problems& problems, const Field& field) {
  if (!field.node.IsScalar() || !IsName(field.node.Scalar()))
    return Refuse(problems, field,
                  "a name of 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit");
  return field.node.Scalar();
}

std::optional<uint64_t> ReadInteger(Problems& problems, const Field& field, uint64_t least, uint64_t most) {
  std::optional<uint64_t> value;
  if (IsPlain(field.node)) value = ParseNumber<uint64_t>(field.node.Scalar());
  if (!value || *value < least || *value > most)
    return Refuse(problems, field, fmt::format("a whole number from {} to {}", least, most));
  return value;
}

std::optional<double> ReadPositive(Problems& problems, const Field& field) {
  std::optional<double> value;
  if (IsPlain(field.node)) value = ParseNumber<double>(field.node.Scalar());
  if (!value || !std::isfinite(*value) || *value <= 0)
    return Refuse(problems, field, "a number greater than 0");
  return value;
}

std::optional<bool> ReadBool(Problems& problems, const Field& field) {
  if (IsPlain(field.node) && field.node.Scalar() == "true") return true;
  if (IsPlain(field.node) && field.node.Scalar() == "false") return false;
  return Refuse(problems, field, "true or false");
}

std::optional<milliseconds> ReadDuration(Problems& problems, const Field& field, milliseconds least,
                                         milliseconds most) {
  std::optional<milliseconds> value;
  if (field.node.IsScalar()) value = ParseDuration(field.node.Scalar());
  if (!value || *value < least || *value > most)
    return Refuse(problems, field,
                  fmt::format("a duration such as 3s or 300ms, from {} to {}", base::DurationText(least),
                              base::DurationText(most)));
  return value;
}

std::optional<nanoseconds> ReadTime(Problems& problems, const Field& field, nanoseconds least,
                                    nanoseconds most) {
  std::optional<nanoseconds> value;
  if (field.node.IsScalar())
    value = field.node.Scalar() == "0" ? nanoseconds(0) : base::ParseDuration(field.node.Scalar());
  if (!value || *value < least || *value > most)
    return Refuse(problems, field,
                  fmt::format("a time from {} to {}, such as 1ms", base::DurationText(least),
                              base::DurationText(most)));
  return value;
}

std::optional<double> ReadNumber(Problems& problems, const Field& field, double least, double most) {
  std::optional<double> value;
  if (IsPlain(field.node)) value = ParseFinite(field.node.Scalar());
  if (!value || *value < least || *value > most)
    return Refuse(problems, field, fmt::format("a number from {} to {}", least, most));
  return value;
}

std::optional<size_t> ReadChoice(Problems& problems, const Field& field,
                                 const std::vector<std::string>& words) {
  const std::string expected = fmt::format("one of {}", fmt::join(words, ", "));
  const auto text = ReadText(problems, field, expected);
  if (!text) return std::nullopt;
  const auto found = std::find(words.begin(), words.end(), *text);
  if (found == words.end()) return Refuse(problems, field, expected);
  return static_cast<size_t>(found - words.begin());
}

}  // namespace spillway::yaml
