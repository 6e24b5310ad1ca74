// SPDX-License-Identifier: Apache-2.0
#include "duration.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

namespace spillway::unit {

Result<std::chrono::nanoseconds> ParseDuration(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  double factor = 0;
  for (const auto& [name, ns] : {std::pair<std::string_view, double>{"", 1e9},
                                 {"ns", 1},
                                 {"us", 1e3},
                                 {"ms", 1e6},
                                 {"s", 1e9},
                                 {"m", 60e9}}) {
    if (unit == name) factor = ns;
  }
  const double ns = value * factor;
  if (error != std::errc() || factor == 0 || !(ns >= 0) || ns > 365.0 * 86400e9) {
    return Fail(ErrorCode::kBadInput,
                fmt::format("\"{}\": expected a time such as 500us, 1.5ms or 10s", text));
  }
  return std::chrono::nanoseconds(std::llround(ns));
}

}  // namespace spillway::unit
