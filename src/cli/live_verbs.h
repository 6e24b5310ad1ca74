// SPDX-License-Identifier: Apache-2.0
// spillway stats, spillway top: counters and units, once or again and again.
#pragma once

#include <CLI/CLI.hpp>

#include "command/context.h"

namespace spillway::command {

void AddLiveVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
