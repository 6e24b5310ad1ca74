// SPDX-License-Identifier: Apache-2.0
// spillway bench gateway: requests through the four designs.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddGatewayVerb(CLI::App& bench, Context& context);

}  // namespace spillway::command
