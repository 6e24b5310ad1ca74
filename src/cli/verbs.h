// SPDX-License-Identifier: Apache-2.0
// The verbs of the program spillway; those that are programs of their own are not among them.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

// spillway check: a pool file's faults, without a daemon and without privileges.
void AddCheckVerbs(CLI::App& app, Context& context);

// spillway show, spillway metrics: what the daemon knows, once. The columns of `show units`:
// unit_table.h.
void AddShowVerbs(CLI::App& app, Context& context);

// spillway apply, set, drain: the verbs that change a running switch.
void AddChangeVerbs(CLI::App& app, Context& context);

// spillway stats, spillway top: counters and units, once or again and again.
void AddLiveVerbs(CLI::App& app, Context& context);

// Verbs that ask a gateway's controller: model add, list, move, remove.
void AddModelVerbs(CLI::App& app, Context& context);

// spillway doctor: checks the requirements of this machine.
void AddDoctorVerbs(CLI::App& app, Context& context);

}  // namespace spillway::command
