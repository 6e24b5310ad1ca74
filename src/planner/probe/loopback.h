// SPDX-License-Identifier: Apache-2.0
// TCP through this machine's own network stack: what a core spends on moving bytes, without a wire.
#pragma once

#include <memory>

#include "base/error.h"
#include "planner/probe/kernel.h"

namespace spillway::planner {

// A connection over 127.0.0.1 (a port of the kernel's choice); a pass sends 16 MB to itself and reads them,
// on one thread. Errors: kSystem.
[[nodiscard]] Result<std::unique_ptr<Kernel>> MakeLoopback();

}  // namespace spillway::planner
