// SPDX-License-Identifier: Apache-2.0
// spillway sched optimal: the online heuristic beside an exact solver.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddOptimal(CLI::App& sched, Context& context);

}  // namespace spillway::command
