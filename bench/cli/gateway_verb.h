// SPDX-License-Identifier: Apache-2.0
// spillway bench gateway: requests through the four designs.
#pragma once

#include <CLI/CLI.hpp>

#include "command/context.h"

namespace spillway::command {

void AddGatewayVerb(CLI::App& bench, Context& context);

}  // namespace spillway::command
