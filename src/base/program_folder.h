// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace spillway::base {

// The folder of the running program, where its siblings are; empty if the kernel does not say.
[[nodiscard]] std::string ProgramFolder();

}  // namespace spillway::base
