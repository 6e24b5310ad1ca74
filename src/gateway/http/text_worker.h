// SPDX-License-Identifier: Apache-2.0
// Reads and writes large JSON on a thread of its own, so that HTTP's goes on. Tenants take turns, one job
// each: who sends much waits for himself. A tenant's jobs are done in the order in which they came.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "base/mutex.h"

namespace spillway::gateway {

class TextWorker {
 public:
  TextWorker();
  // Waits for the job in hand; those behind it are dropped, undone.
  ~TextWorker();
  TextWorker(const TextWorker&) = delete;
  TextWorker& operator=(const TextWorker&) = delete;

  // From any thread. `job` must not throw; what it owns may not be this worker.
  void Do(uint32_t tenant, std::function<void()> job) SPILLWAY_EXCLUDES(mutex_);

 private:
  void Run() SPILLWAY_EXCLUDES(mutex_);
  // There is one.
  std::function<void()> Next() SPILLWAY_REQUIRES(mutex_);

  base::Mutex mutex_;
  base::Condition changed_;
  std::map<uint32_t, std::deque<std::function<void()>>> waiting_
      SPILLWAY_GUARDED_BY(mutex_);  // none is empty
  uint32_t last_tenant_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace spillway::gateway
