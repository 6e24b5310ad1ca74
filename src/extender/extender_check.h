// SPDX-License-Identifier: Apache-2.0
// What the pool file's reader cannot say of its key `extender`.
#pragma once

#include <string>

#include "base/error.h"
#include "model/pool.h"

namespace spillway::extender {

// Whether its address and the files that it names, if any, can be used; `file` is the pool file's name.
// Errors: kBadInput.
[[nodiscard]] Result<void> CheckExtender(const std::string& file, const model::Config& config);

}  // namespace spillway::extender
