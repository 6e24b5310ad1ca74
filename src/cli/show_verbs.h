// SPDX-License-Identifier: Apache-2.0
// spillway show, spillway metrics: what the daemon knows, once.
#pragma once

#include <CLI/CLI.hpp>

#include "command/context.h"

namespace spillway::command {

void AddShowVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
