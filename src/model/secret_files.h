// SPDX-License-Identifier: Apache-2.0
// Files that hold a secret: the keys of load reports, and the seed of the flow hash. The switch, the agent
// and the lab read the same formats. Threading: none of it keeps state.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "core/hash.h"
#include "pool.h"

namespace spillway::model {

// The text of a small file that holds a secret; nothing of more than 255 bytes. Errors: kBadInput, when it
// cannot be read, is no regular file or any user may write to it: then the secret is whoever's.
[[nodiscard]] Result<std::string> ReadSecretFile(const std::string& path);

// Where other users may read the file, or its group write to it: a line for the log that says so.
std::optional<std::string> SecretFileWarning(const std::string& path);

// Key files: one line of 32 hex digits, the SipHash key of one server's load reports.
// White space around the digits is allowed.
std::optional<Key> ParseKey(std::string_view text);

// Errors: kBadInput, when the file cannot be read or holds anything else. Never shows what it holds.
[[nodiscard]] Result<Key> ReadKeyFile(const std::string& path);

// Lines for the log: SecretFileWarning's, and one where `key`, which the file holds, was not made by chance:
// each of its bytes differs by the same from the one before, as in the examples' published keys and in zeros.
std::vector<std::string> KeyFileWarnings(const std::string& path, const Key& key);

// The seed of the flow hash, in a file: what the ring says of a flow is then the same after a reboot, after
// a new layout of the maps, and on every switch that has the same file. One line of 96 hex digits: ten words
// of 32 bits, then one of 64, most significant digit first. It is a secret: who knows it can choose flows
// that all meet one slot.
// White space around the digits is allowed.
std::optional<spw_seed> ParseSeed(std::string_view text);
std::string SeedText(const spw_seed& seed);

// nullopt: there is no such file. Errors (kBadInput): it cannot be read or holds anything else; the message
// names the file and never shows what it holds.
[[nodiscard]] Result<std::optional<spw_seed>> ReadSeedFile(const std::string& path);

[[nodiscard]] Result<spw_seed> RandomSeed();

// The file's seed. Where there is no file it is made, mode 0600, with `running` or, without one, a random
// seed; of several that make it at once one wins and all return its seed. Errors: kBadInput, kSystem,
// kConflict.
[[nodiscard]] Result<spw_seed> ReadOrMakeSeedFile(const std::string& path,
                                                  const std::optional<spw_seed>& running);

}  // namespace spillway::model
