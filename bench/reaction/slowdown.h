// SPDX-License-Identifier: Apache-2.0
// Processes that run for a tenth of the time only: stopped for 18 ms of every 20, by a thread of its own,
// from construction to destruction, which leaves them running.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "lab/testbed/process.h"

namespace spillway::bench {

class Slowdown {
 public:
  explicit Slowdown(std::vector<lab::ProcessId> processes);
  ~Slowdown();
  Slowdown(const Slowdown&) = delete;
  Slowdown& operator=(const Slowdown&) = delete;

 private:
  void Loop();

  const std::vector<lab::ProcessId> processes_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace spillway::bench
