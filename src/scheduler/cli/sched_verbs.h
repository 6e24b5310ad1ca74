// SPDX-License-Identifier: Apache-2.0
// spillway sched: the scheduler of GPU slices on its own.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddSchedVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
