// SPDX-License-Identifier: Apache-2.0
// What the pool file's reader cannot say of its key `extender`.
#pragma once

#include "model/error.h"
#include "model/pool.h"

namespace spillway::cmd {

// Whether its address and its cluster file, if any, can be used. Errors: kBadInput.
[[nodiscard]] Result<void> CheckExtender(const model::Config& config);

}  // namespace spillway::cmd
