// SPDX-License-Identifier: Apache-2.0
#include "base/duration.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

namespace spillway::base {
namespace {

using std::chrono::nanoseconds;

constexpr double kTooLong = 1e18;
constexpr std::array<std::pair<std::string_view, int64_t>, 6> kUnits{{{"h", 3'600'000'000'000},
                                                                      {"m", 60'000'000'000},
                                                                      {"s", 1'000'000'000},
                                                                      {"ms", 1'000'000},
                                                                      {"us", 1000},
                                                                      {"ns", 1}}};

}  // namespace

std::optional<nanoseconds> ParseDuration(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return std::nullopt;
  for (const auto& [unit, unit_ns] : kUnits) {
    if (std::string_view(rest, static_cast<size_t>(end - rest)) != unit) continue;
    const double ns = value * static_cast<double>(unit_ns);
    if (ns >= 0 && ns < kTooLong) return nanoseconds(std::llround(ns));
  }
  return std::nullopt;
}

std::string DurationText(nanoseconds duration) {
  if (duration.count() == 0) return "0s";
  for (const auto& [unit, unit_ns] : kUnits)
    if (duration.count() % unit_ns == 0) return fmt::format("{}{}", duration.count() / unit_ns, unit);
  return {};
}

}  // namespace spillway::base
