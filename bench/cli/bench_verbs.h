// SPDX-License-Identifier: Apache-2.0
// spillway bench: what this build costs on this machine; needs no daemon.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddBenchVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
