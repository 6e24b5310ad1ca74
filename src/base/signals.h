// SPDX-License-Identifier: Apache-2.0
// Signals: Ctrl-C and SIGTERM as a flag, so that whoever built something takes it down before the program
// ends, and threads that get none.
#pragma once

#include <signal.h>

#include <chrono>

namespace spillway::base {

// While one exists, SIGINT, SIGTERM and SIGHUP set the flag instead of ending the program. SIGPIPE is
// ignored meanwhile. One at a time.
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

// Threads that begin while it lives get no signals: these are for the program's own thread, which may not
// have asked for them yet.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

}  // namespace spillway::base
