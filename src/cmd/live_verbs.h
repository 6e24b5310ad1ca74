// SPDX-License-Identifier: Apache-2.0
// spillway stats, spillway top: counters and units, once or again and again.
#pragma once

#include <CLI/CLI.hpp>

#include "cmd/context.h"

namespace spillway::cmd {

void AddLiveVerbs(CLI::App& app, Context& context);

}  // namespace spillway::cmd
