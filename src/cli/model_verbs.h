// SPDX-License-Identifier: Apache-2.0
// Verbs that ask a gateway's controller: model add, list, move, remove.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddModelVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
