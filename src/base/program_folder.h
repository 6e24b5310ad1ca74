// SPDX-License-Identifier: Apache-2.0
// The folder of the running program, where its siblings are.
#pragma once

#include <string>

namespace spillway::base {

// Empty if the kernel does not say.
[[nodiscard]] std::string ProgramFolder();

}  // namespace spillway::base
