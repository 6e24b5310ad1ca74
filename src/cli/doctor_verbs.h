// SPDX-License-Identifier: Apache-2.0
// spillway doctor: checks the requirements of this machine.
#pragma once

#include <CLI/CLI.hpp>

#include "command/context.h"

namespace spillway::command {

void AddDoctorVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
