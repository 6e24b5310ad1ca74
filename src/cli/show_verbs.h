// SPDX-License-Identifier: Apache-2.0
// spillway show, spillway metrics: what the daemon knows, once. The columns of `show units`:
// unit_table.h.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddShowVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
