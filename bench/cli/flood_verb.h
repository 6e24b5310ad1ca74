// SPDX-License-Identifier: Apache-2.0
// spillway bench flood: connections beside a packet generator.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddFloodVerb(CLI::App& bench, Context& context);

}  // namespace spillway::command
