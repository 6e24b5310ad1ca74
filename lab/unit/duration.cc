// SPDX-License-Identifier: Apache-2.0
#include "duration.h"

#include <fmt/format.h>

#include <string>

#include "base/duration.h"

namespace spillway::unit {

Result<std::chrono::nanoseconds> ParseDuration(std::string_view text) {
  const bool is_bare = !text.empty() && text.back() >= '0' && text.back() <= '9';
  const auto time = base::ParseDuration(is_bare ? std::string(text) + "s" : std::string(text));
  if (!time || *time > std::chrono::hours(365 * 24))
    return Fail(ErrorCode::kBadInput,
                fmt::format("\"{}\": expected a time such as 500us, 1.5ms or 10s", text));
  return *time;
}

}  // namespace spillway::unit
