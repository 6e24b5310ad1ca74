// SPDX-License-Identifier: Apache-2.0
// The verb that simulates: sim.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddSimVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
