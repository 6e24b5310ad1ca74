// SPDX-License-Identifier: Apache-2.0
// Threads that read and write JSON which takes long, so that HTTP's own goes on: one for each tenant that has
// sent any, so that who sends much waits for himself, and the kernel divides the CPUs.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "base/mutex.h"

namespace spillway::gateway {

class TextWorkers {
 public:
  enum class Kind { kRequest, kAnswer };

  TextWorkers();
  // Waits for the jobs in hand; those behind them are dropped, undone.
  ~TextWorkers();
  TextWorkers(const TextWorkers&) = delete;
  TextWorkers& operator=(const TextWorkers&) = delete;

  // From any thread. A tenant's answers are written before its requests are read, as they hold memory that
  // these want; else in the order of calls. Where the system gives no thread, the caller's does it. `job`
  // must not throw; what it owns may not be these workers.
  void Do(uint32_t tenant, Kind kind, std::function<void()> job) SPILLWAY_EXCLUDES(mutex_);

 private:
  class Worker;
  // nullptr: the system gives no thread.
  Worker* WorkerOf(uint32_t tenant) SPILLWAY_EXCLUDES(mutex_);

  base::Mutex mutex_;
  std::map<uint32_t, std::unique_ptr<Worker>> workers_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway::gateway
