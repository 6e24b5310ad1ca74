// SPDX-License-Identifier: Apache-2.0
// The command line `spillway VERB ...`. Its verbs live in programs of their own, so that it loads nothing
// that it does not use: `spillway lab` becomes the program spillway-lab beside it, which has the one verb
// group.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

using AddVerbs = std::function<void(CLI::App&, Context&)>;
// Between parsing and the verb's action: of options that all verbs have. An exit code ends the program.
using CheckOptions = std::function<std::optional<int>(Context&)>;

// Parses, runs the verb's action, returns its exit code. `check` may be empty.
int RunCommandLine(int argc, char** argv, const AddVerbs& add, const CheckOptions& check = {});

// main of the program spillway-VERB. As `spillway` it takes a whole command line, under its own name what
// follows the verb.
int RunVerbProgram(int argc, char** argv, const char* verb, const AddVerbs& add);

// Becomes spillway-VERB, with the words that this program was given. Returns only if it cannot be started.
// component: of the installation, by which that program comes.
int BecomeVerbProgram(const std::string& verb, const std::string& component, int argc, char** argv);

}  // namespace spillway::command
