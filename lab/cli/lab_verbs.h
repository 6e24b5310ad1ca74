// SPDX-License-Identifier: Apache-2.0
// spillway lab up | down | list | exec | run
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddLabVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
