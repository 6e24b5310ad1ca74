// SPDX-License-Identifier: Apache-2.0
// What the mains of units' programs share: signals, readiness, statistics.
#pragma once

#include <memory>
#include <string_view>

#include "server.h"

namespace spillway::unit {

// Blocks SIGINT, SIGTERM and SIGUSR1, raises the limit on open files, and returns a descriptor that tells
// of these signals. To be called before any thread starts: threads inherit what is blocked.
[[nodiscard]] int TakeSignals();

// Opens, says on stderr where it answers, and serves: statistics as one JSON line on stdout at SIGUSR1 and
// at the end, which SIGINT and SIGTERM bring. The exit code of `program`.
[[nodiscard]] int Serve(std::string_view program, const ServerSettings& settings,
                        std::unique_ptr<Workers> workers, int signal_fd);

}  // namespace spillway::unit
