// SPDX-License-Identifier: Apache-2.0
// spillway apply, set, drain: the verbs that change a running switch.
#pragma once

#include <CLI/CLI.hpp>

#include "cmd/context.h"

namespace spillway::cmd {

void AddChangeVerbs(CLI::App& app, Context& context);

}  // namespace spillway::cmd
