// SPDX-License-Identifier: Apache-2.0
// Paths that depend on where a program runs, without the exceptions of <filesystem>.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"

namespace spillway::base {

// Normalised. Where the current folder is gone, a relative path stays one.
[[nodiscard]] std::string AbsolutePath(const std::filesystem::path& path);

// Where temporary files go: what TMPDIR says, else /tmp. Errors: kBadInput: that is no folder.
[[nodiscard]] Result<std::string> TemporaryFolder();
// A new folder there, its name `name` and six more characters; the caller's to remove. Errors: also kSystem.
[[nodiscard]] Result<std::string> MakeTemporaryFolder(const std::string& name);

// The folder of the running program, where its siblings are. Empty if the kernel does not say.
[[nodiscard]] std::string ProgramFolder();

}  // namespace spillway::base
