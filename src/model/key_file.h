// SPDX-License-Identifier: Apache-2.0
// Key files: one line of 32 hex digits, the SipHash key of one server's load reports. The switch, the
// agent and the lab read the same format. Threading: none of it keeps state.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "error.h"
#include "pool.h"

namespace spillway::model {

// 32 hex digits, white space around them allowed.
std::optional<Key> ParseKey(std::string_view text);

// Errors: kBadInput, when the file cannot be read or holds anything else. Never shows what it holds.
[[nodiscard]] Result<Key> ReadKeyFile(const std::string& path);

}  // namespace spillway::model
