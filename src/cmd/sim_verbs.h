// SPDX-License-Identifier: Apache-2.0
// The verb that simulates: sim.
#pragma once

#include <CLI/CLI.hpp>

#include "cmd/context.h"

namespace spillway::cmd {

void AddSimVerbs(CLI::App& app, Context& context);

}  // namespace spillway::cmd
