// SPDX-License-Identifier: Apache-2.0
// Verbs that ask a gateway's controller: model add, list, move, remove.
#pragma once

#include <CLI/CLI.hpp>

#include "command/context.h"

namespace spillway::command {

void AddModelVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
