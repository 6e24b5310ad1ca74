// SPDX-License-Identifier: Apache-2.0
#include "scalars.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/duration.h"
#include "base/paths.h"

namespace spillway::model {

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

std::nullopt_t Refuse(Problems& problems, const Field& field, std::string_view expected) {
  std::string got = Describe(field.node);
  if (field.node.IsScalar() && !IsPlain(field.node)) got = "the text " + got;
  problems.Add(field.line, field.path, fmt::format("expected {}, got {}", expected, got));
  return std::nullopt;
}

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool BelongsToAHost(const Address& address) {
  const auto& bytes = address.bytes;
  bool multicast = address.family == 4 ? (bytes[0] & 0xf0) == 0xe0 : bytes[0] == 0xff;
  bool broadcast = address.family == 4 &&
                   std::all_of(bytes.begin(), bytes.begin() + 4, [](uint8_t byte) { return byte == 0xff; });
  bool unspecified = std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
  return !multicast && !broadcast && !unspecified;
}

std::optional<double> ParseFinite(std::string_view text) {
  auto value = ParseNumber<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace

// Whole numbers of milliseconds and more, written without a point.
std::optional<milliseconds> ParseDuration(std::string_view text) {
  if (text.find_first_of(".e") != text.npos) return std::nullopt;
  const auto time = base::ParseDuration(text);
  if (!time || *time % milliseconds(1) != nanoseconds(0)) return std::nullopt;
  return std::chrono::duration_cast<milliseconds>(*time);
}

std::optional<ServicePort> ParseServicePort(std::string_view text) {
  ServicePort port;
  if (text.starts_with("udp/"))
    port.protocol = Protocol::kUdp;
  else if (!text.starts_with("tcp/"))
    return std::nullopt;
  auto number = ParseNumber<uint16_t>(text.substr(4));
  if (!number || *number == 0) return std::nullopt;
  port.port = *number;
  return port;
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
    return Refuse(problems, field, "a name of 1 to 64 letters, digits, '.', '_' or '-'");
  return field.node.Scalar();
}

std::optional<uint64_t> ReadInteger(Problems& problems, const Field& field, uint64_t least, uint64_t most) {
  std::optional<uint64_t> value;
  if (IsPlain(field.node)) value = ParseNumber<uint64_t>(field.node.Scalar());
  if (!value || *value < least || *value > most)
    return Refuse(problems, field, fmt::format("a whole number from {} to {}", least, most));
  return value;
}

std::optional<double> ReadCapacity(Problems& problems, const Field& field) {
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

std::optional<Address> ReadAddress(Problems& problems, const Field& field) {
  std::optional<Address> value;
  if (field.node.IsScalar()) value = Address::Parse(field.node.Scalar());
  if (!value) return Refuse(problems, field, "an IPv4 or IPv6 address (IPv4-mapped ones in IPv4 spelling)");
  if (!BelongsToAHost(*value)) return Refuse(problems, field, "the address of a host");
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

std::optional<ServicePort> ReadServicePort(Problems& problems, const Field& field) {
  std::optional<ServicePort> value;
  if (field.node.IsScalar()) value = ParseServicePort(field.node.Scalar());
  if (!value) return Refuse(problems, field, "tcp/PORT or udp/PORT with a port from 1 to 65535");
  return value;
}

}  // namespace spillway::model
