// SPDX-License-Identifier: Apache-2.0
// Writes a program's results (--out) to files, making their folders on the way.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace spillway::report {

// With its parents; no error if it is there. Errors: kBadInput: something else has its name; kSystem.
[[nodiscard]] Result<void> MakeFolder(const std::string& folder);

// base::WriteOutput, creating missing folders. Errors: naming the path and the reason.
[[nodiscard]] Result<void> WriteFile(const std::string& path, std::string_view text);

}  // namespace spillway::report
