// SPDX-License-Identifier: Apache-2.0
// What an option takes. CLI11's own ranges let NaN pass, and call 1.5 out of the range 1 to 1000.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>

namespace spillway::command {

// The whole text as a number. CLI11 reads -1 as the greatest of what has no sign.
template <class T>
bool ReadNumber(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end;
}

// `low` to `high`, both included; whole where T is.
template <class T>
CLI::Validator InRange(T low, T high) {
  std::ostringstream bounds, help;
  bounds << (std::is_integral_v<T> ? "a whole number" : "a number") << " from " << low << " to " << high;
  help << CLI::detail::type_name<T>() << " in [" << low << " - " << high << "]";
  return CLI::Validator(
      [low, high, expected = bounds.str()](const std::string& text) {
        T value{};
        const bool is_in = ReadNumber(text, value) && value >= low && value <= high;
        return is_in ? std::string() : "expected " + expected + ", got " + text;
      },
      help.str());
}

// Greater than 0, and finite.
inline CLI::Validator Positive() {
  return CLI::Validator(
      [](const std::string& text) {
        double value = 0;
        const bool is_good = ReadNumber(text, value) && value > 0 && std::isfinite(value);
        return is_good ? std::string() : "expected a number greater than 0, got " + text;
      },
      "POSITIVE");
}

// From 0 on, and finite; whole where T is.
template <class T = double>
CLI::Validator NonNegative() {
  return CLI::Validator(
      [](const std::string& text) {
        T value{};
        const bool is_good = ReadNumber(text, value) && value >= 0 && std::isfinite(value);
        const std::string expected =
            std::is_integral_v<T> ? "a whole number from 0 on" : "a number from 0 on";
        return is_good ? std::string() : "expected " + expected + ", got " + text;
      },
      "NONNEGATIVE");
}

// Not empty, as what `--out "$FOLDER"` says of a variable that is not set.
inline CLI::Validator NonEmpty() {
  return CLI::Validator(
      [](const std::string& text) {
        return text.empty() ? std::string("expected a name, got an empty one") : std::string();
      },
      "");
}

}  // namespace spillway::command
