// SPDX-License-Identifier: Apache-2.0
// spillway bench sched: decisions of the scheduler of GPU slices.
#pragma once

#include <CLI/CLI.hpp>

#include "command/context.h"

namespace spillway::command {

void AddSchedVerb(CLI::App& bench, Context& context);

}  // namespace spillway::command
