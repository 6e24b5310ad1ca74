// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM as a flag, so that whoever built something takes it down before the program ends.
// SIGPIPE is ignored and SIGHUP counts as SIGTERM meanwhile.
#pragma once

#include <chrono>

namespace spillway::base {

// While one exists, the signals set the flag instead of ending the program. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

bool Interrupted();
// False if interrupted before or meanwhile.
bool SleepUnlessInterrupted(std::chrono::milliseconds time);

}  // namespace spillway::base
