// SPDX-License-Identifier: Apache-2.0
// spillway sched replay: the experiments on lists of jobs.
#pragma once

#include <CLI/CLI.hpp>

#include "command/context.h"

namespace spillway::command {

void AddReplay(CLI::App& sched, Context& context);

}  // namespace spillway::command
