// SPDX-License-Identifier: Apache-2.0
// What was built. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace spillway::base {

// E.g. "0.1.0".
[[nodiscard]] std::string_view Version();

// The source's commit as git describes it when the program was built, e.g. "v0.1.0-3-g0123456789ab-dirty";
// "unknown" when built outside a git checkout.
[[nodiscard]] std::string_view BuildCommit();

// What --version prints: "spillway 0.1.0 (0123456789ab)".
[[nodiscard]] std::string VersionLine(std::string_view program);

}  // namespace spillway::base
