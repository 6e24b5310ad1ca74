// SPDX-License-Identifier: Apache-2.0
// spillway lab up | down | list | exec | run
#pragma once

#include <CLI/CLI.hpp>

#include "command/context.h"

namespace spillway::command {

void AddLabVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
