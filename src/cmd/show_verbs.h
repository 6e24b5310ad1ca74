// SPDX-License-Identifier: Apache-2.0
// spillway show, spillway metrics: what the daemon knows, once.
#pragma once

#include <CLI/CLI.hpp>

#include "cmd/context.h"

namespace spillway::cmd {

void AddShowVerbs(CLI::App& app, Context& context);

}  // namespace spillway::cmd
