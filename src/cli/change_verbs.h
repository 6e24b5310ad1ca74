// SPDX-License-Identifier: Apache-2.0
// spillway apply, set, drain: the verbs that change a running switch.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddChangeVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
