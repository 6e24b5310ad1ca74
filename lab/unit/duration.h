// SPDX-License-Identifier: Apache-2.0
// Times as options give them. Pure.
#pragma once

#include <chrono>
#include <string_view>

#include "base/error.h"

namespace spillway::unit {

// As base::ParseDuration reads it; a bare number is seconds. Not negative, at most 365 days.
// Errors: kBadInput.
[[nodiscard]] Result<std::chrono::nanoseconds> ParseDuration(std::string_view text);

}  // namespace spillway::unit
