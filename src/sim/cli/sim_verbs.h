// SPDX-License-Identifier: Apache-2.0
// The verb that simulates: sim.
#pragma once

#include <CLI/CLI.hpp>

#include "command/context.h"

namespace spillway::command {

void AddSimVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
