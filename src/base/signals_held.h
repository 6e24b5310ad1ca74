// SPDX-License-Identifier: Apache-2.0
// Threads that begin while it lives get no signals: these are for the program's own thread, which may not
// have asked for them yet.
#pragma once

#include <signal.h>

namespace spillway::base {

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
