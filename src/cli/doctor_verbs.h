// SPDX-License-Identifier: Apache-2.0
// spillway doctor: checks the requirements of this machine.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddDoctorVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
