// SPDX-License-Identifier: Apache-2.0
// No switch at all: what spillwayd runs over where its file has none, and serves the extender alone. It needs
// no kernel and no privileges.
#pragma once

#include <memory>

#include "switch/switch.h"

namespace spillway::command {

[[nodiscard]] std::unique_ptr<switching::Switch> MakeNoSwitch(const model::Config& config);

}  // namespace spillway::command
