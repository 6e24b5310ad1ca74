// SPDX-License-Identifier: Apache-2.0
// Durations as people write them. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace spillway::base {

// A decimal number and its unit: "250ns", "500us", "1.5ms", "2s", "1m", "1h". nullopt: anything else, one
// that is negative, or of 31 years and more.
std::optional<std::chrono::nanoseconds> ParseDuration(std::string_view text);

// In the largest of these units of which it is a whole number: "1500us", "2s"; "0s".
std::string DurationText(std::chrono::nanoseconds duration);

}  // namespace spillway::base
