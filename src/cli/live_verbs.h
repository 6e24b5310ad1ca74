// SPDX-License-Identifier: Apache-2.0
// spillway stats, spillway top: counters and units, once or again and again.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddLiveVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
