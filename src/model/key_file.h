// SPDX-License-Identifier: Apache-2.0
// Key files: one line of 32 hex digits, the SipHash key of one server's load reports. The switch, the
// agent and the lab read the same format. The file of the switch's seed is read the same way. Threading: none
// of it keeps state.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "pool.h"

namespace spillway::model {

// 32 hex digits, white space around them allowed.
std::optional<Key> ParseKey(std::string_view text);

// The text of a small file that holds a secret; nothing of more than 255 bytes. Errors: kBadInput, when it
// cannot be read, is no regular file or any user may write to it: then the secret is whoever's.
[[nodiscard]] Result<std::string> ReadSecretFile(const std::string& path);

// Where other users may read the file, or its group write to it: a line for the log that says so.
std::optional<std::string> SecretFileWarning(const std::string& path);

// Errors: kBadInput, when the file cannot be read or holds anything else. Never shows what it holds.
[[nodiscard]] Result<Key> ReadKeyFile(const std::string& path);

}  // namespace spillway::model
