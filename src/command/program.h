// SPDX-License-Identifier: Apache-2.0
// What the mains of programs that stay (agent, gateway, executor, node agent) have in common: how they read
// the command line, log, and end. (Of spillwayd, which has src/daemon, only the log.)
#pragma once

#include <signal.h>

#include <optional>
#include <string>

#include "command/exit_code.h"

namespace CLI {
class App;
}

namespace spillway::command {

// Adds --version and `exit_codes` to `app`, whose name is the program's, and parses. The exit code where
// the command line ends the program: --help, --version, bad usage, which takes one line.
[[nodiscard]] std::optional<int> ParseCommandLine(CLI::App& app, int argc, char** argv,
                                                  const char* exit_codes = kDaemonExitCodes);

// From here on spdlog writes to stderr, a line with time and level each; without the time for the journal,
// which stamps lines itself. `level`: spdlog's word for the least that is logged.
void LogToStderr(const std::string& program, const std::string& level = "info");

// Blocks SIGTERM and SIGINT in this thread and those it starts, who then wait for them; a peer that is gone
// is an error of write, no SIGPIPE. Before any thread.
sigset_t HoldSignals();

}  // namespace spillway::command
