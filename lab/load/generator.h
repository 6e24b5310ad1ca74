// SPDX-License-Identifier: Apache-2.0
// The open loop: sends each request at its time, receives in between, and ends when all are answered or
// overdue. One thread, the caller's.
#pragma once

#include <functional>

#include "ledger.h"
#include "options.h"

namespace spillway::load {

struct Trial {
  Ledger ledger;
  std::size_t flows = 0;     // distinct sockets or connections; 0: one connection per request
  bool interrupted = false;  // not all requests were offered
};

// Reports the run's progress: a fraction in [0, 1]. Called a few times a second.
using OnProgress = std::function<void(double fraction, const Ledger& ledger)>;

// stop_fd: when it becomes readable, no more requests are sent and outstanding answers are awaited; at
// the second time these too are given up. -1: none. Errors: kSystem, kConflict (sockets).
[[nodiscard]] Result<Trial> Generate(const Settings& settings, int stop_fd, const OnProgress& on_progress);

}  // namespace spillway::load
