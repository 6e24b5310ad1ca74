// SPDX-License-Identifier: Apache-2.0
// Writing a result file whole or not at all. Two writers of one path: the last one wins, no mixture.
#pragma once

#include <string>
#include <string_view>

#include "model/error.h"

namespace spillway::report {

// With its parents; no error if it is there. Errors: kSystem.
[[nodiscard]] Result<void> MakeFolder(const std::string& folder);

// Writes `text` to `path` through a temporary neighbour and a rename, creating missing folders.
// Errors: kSystem, naming the path and the reason.
[[nodiscard]] Result<void> WriteFile(const std::string& path, std::string_view text);

}  // namespace spillway::report
