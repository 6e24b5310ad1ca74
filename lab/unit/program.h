// SPDX-License-Identifier: Apache-2.0
// What the mains of units' programs share: signals, readiness, statistics, priority.
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

// Asks for SCHED_FIFO at a low real-time priority (needs CAP_SYS_NICE), so that ordinary processes do
// not delay the caller's thread; children do not inherit it. False: not allowed, nothing changed. Good
// where the thread mostly sleeps; one that fills a CPU starves its neighbours on it.
bool TakeRealtimePriority();

}  // namespace spillway::unit
