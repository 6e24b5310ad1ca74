// SPDX-License-Identifier: Apache-2.0
// spillway check: a pool file's faults, without a daemon and without privileges.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddCheckVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
