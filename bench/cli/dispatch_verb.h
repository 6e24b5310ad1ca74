// SPDX-License-Identifier: Apache-2.0
// spillway bench dispatch: the dispatcher beside its peers.
#pragma once

#include <CLI/CLI.hpp>

#include "command/context.h"

namespace spillway::command {

void AddDispatchVerb(CLI::App& bench, Context& context);

}  // namespace spillway::command
