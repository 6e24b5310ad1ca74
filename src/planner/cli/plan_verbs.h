// SPDX-License-Identifier: Apache-2.0
// The verbs that plan hardware: plan compare, search, explain, simulate, paper, probe.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddPlanVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
