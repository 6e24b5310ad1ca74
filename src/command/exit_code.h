// SPDX-License-Identifier: Apache-2.0
// Exit codes of every program: 0 ok, 1 failed, 2 bad usage or input; 130, as shells have it, where Ctrl-C
// ended what would have gone on to an end of its own; 141, as shells have it, where the output's reader was
// gone and SIGPIPE did not end the program.
#pragma once

#include "base/error.h"

namespace spillway::command {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitBadInput = 2;
inline constexpr int kExitInterrupted = 130;
inline constexpr int kExitBrokenPipe = 141;
// The last line of a --help.
inline constexpr const char* kExitCodes =
    "Exit codes: 0 ok, 1 failed, 2 bad usage or input, 130 interrupted.";

// Of programs that stay until they are told to stop, by Ctrl-C too.
inline constexpr const char* kDaemonExitCodes = "Exit codes: 0 ok, 1 failed, 2 bad usage or input.";

inline int ExitCode(const Error& error) {
  const bool is_users = error.code == ErrorCode::kBadInput || error.code == ErrorCode::kNotFound;
  return is_users ? kExitBadInput : kExitFailed;
}

}  // namespace spillway::command
