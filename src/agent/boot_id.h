// SPDX-License-Identifier: Apache-2.0
// The boot id of an agent's reports: the time of its start, and always later than that of the start before,
// whatever the clock says, or the switches would take its reports for old ones; kept in `state_file`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"

namespace spillway::agent {

// now_us: microseconds since 1970.
uint64_t NextBootId(std::optional<uint64_t> last, uint64_t now_us);

// The next boot id, kept in the file at `path`, which is made with its folder. What the file holds, if it is
// no boot id, is replaced. Errors (kSystem): it cannot be kept.
[[nodiscard]] Result<uint64_t> TakeBootId(const std::string& path, uint64_t now_us);

// The same at this time; where it cannot be kept, the log warns and the time alone counts.
uint64_t TakeBootId(const std::string& path);

}  // namespace spillway::agent
