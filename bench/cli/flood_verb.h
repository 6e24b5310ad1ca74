// SPDX-License-Identifier: Apache-2.0
// spillway bench flood: connections beside a packet generator.
#pragma once

#include <CLI/CLI.hpp>

#include "command/context.h"

namespace spillway::command {

void AddFloodVerb(CLI::App& bench, Context& context);

}  // namespace spillway::command
