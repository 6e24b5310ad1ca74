// SPDX-License-Identifier: Apache-2.0
// Bytes written as hexadecimal digits. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace spillway::base {

// Two digits of either case a byte; nullopt: an odd number of them, or something else.
[[nodiscard]] inline std::optional<std::string> ParseHex(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = digit(text[i]), low = digit(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

}  // namespace spillway::base
