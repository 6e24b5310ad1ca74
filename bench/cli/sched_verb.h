// SPDX-License-Identifier: Apache-2.0
// spillway bench sched: decisions of the scheduler of GPU slices.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddSchedVerb(CLI::App& bench, Context& context);

}  // namespace spillway::command
