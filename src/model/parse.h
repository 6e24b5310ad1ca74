// SPDX-License-Identifier: Apache-2.0
// The pool file: text -> Config, checked whole; nothing is half-read. An error holds everything that is
// wrong with the file (the first kMaxProblems), one line each in the order of the file's lines,
// "file:line: key.path: expected what, got what", with ErrorCode::kBadInput. docs/pool-file.md describes
// every key. Threading: none keeps state.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/yaml/problems.h"
#include "pool.h"

namespace spillway::model {

// A file that is right as far as it says, and where its keys stand: the switch may still refuse it.
struct PoolFile {
  Config config;
  yaml::Problems keys;  // none are wrong

  // A refusal that begins with a key's path and ": ", at the line where that key, or the nearest around it,
  // stands. Others as they are.
  [[nodiscard]] Error At(const Error& error) const;
};

// Parses and validates `yaml`; `file_name` appears in messages and is the base of relative key_file
// paths. Reads the key files and makes their paths absolute.
[[nodiscard]] Result<PoolFile> ParsePoolFile(std::string_view yaml, const std::string& file_name);

// The same from a file. One that cannot be read is kBadInput too.
[[nodiscard]] Result<PoolFile> LoadPoolFile(const std::string& path);

// The same, where only what the file says matters.
[[nodiscard]] Result<Config> ParseConfig(std::string_view yaml, const std::string& file_name);
[[nodiscard]] Result<Config> LoadConfig(const std::string& path);

}  // namespace spillway::model
