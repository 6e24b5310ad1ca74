// SPDX-License-Identifier: Apache-2.0
// The source's commit as git describes it when the program was built. Thread-safe.
#pragma once

#include <string_view>

namespace spillway::report {

// E.g. "v0.1.0-3-g0123456789ab-dirty"; "unknown" when built outside a git checkout.
[[nodiscard]] std::string_view BuildCommit();

}  // namespace spillway::report
