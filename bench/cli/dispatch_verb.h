// SPDX-License-Identifier: Apache-2.0
// spillway bench dispatch: the dispatcher beside its peers.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddDispatchVerb(CLI::App& bench, Context& context);

}  // namespace spillway::command
