// SPDX-License-Identifier: Apache-2.0
// `spillway lab paper`: P4Mite's claims beside what the simulator and the lab find.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

// As a verb of `lab`.
void AddPaperVerb(CLI::App& lab, Context& context);

}  // namespace spillway::command
