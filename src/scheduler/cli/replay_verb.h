// SPDX-License-Identifier: Apache-2.0
// spillway sched replay: the experiments on lists of jobs.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddReplay(CLI::App& sched, Context& context);

}  // namespace spillway::command
