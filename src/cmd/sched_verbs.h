// SPDX-License-Identifier: Apache-2.0
// spillway sched: the scheduler of GPU slices on its own. spillway bench sched: how fast it decides.
#pragma once

#include <CLI/CLI.hpp>

#include "cmd/context.h"

namespace spillway::cmd {

void AddSchedVerbs(CLI::App& app, Context& context);
// Under the verb `bench`.
void AddSchedBench(CLI::App& bench, Context& context);

}  // namespace spillway::cmd
