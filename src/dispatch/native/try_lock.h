// SPDX-License-Identifier: Apache-2.0
// A lock that nobody waits for on the fast path: who does not get it has other things to do.
#pragma once

#include <sched.h>

#include <atomic>

#include "base/relax.h"

namespace spillway::dispatch {

class TryLock {
 public:
  bool Try() {
    return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire);
  }
  // For slow paths; yields, since the holder may be off its core.
  void Wait() {
    for (int spins = 0; !Try(); spins++) {
      if (spins % 64 == 63)
        sched_yield();
      else
        base::Relax();
    }
  }
  void Unlock() { taken_.store(false, std::memory_order_release); }

  // Both read-modify-write: of a failed try and the holder's unlock, the later in the order of the lock's
  // changes sees what the other thread wrote before. So a thread that leaves work behind because its try
  // failed is sure that the holder, looking again after its unlock, sees that work.
  bool TryHandingOver() { return !taken_.exchange(true, std::memory_order_acq_rel); }
  void UnlockTakingOver() { taken_.exchange(false, std::memory_order_acq_rel); }

 private:
  std::atomic<bool> taken_{false};
};

class TryLockHold {
 public:
  explicit TryLockHold(TryLock* lock) : lock_(lock) {
    if (lock_) lock_->Wait();
  }
  ~TryLockHold() {
    if (lock_) lock_->Unlock();
  }
  TryLockHold(const TryLockHold&) = delete;
  TryLockHold& operator=(const TryLockHold&) = delete;

 private:
  TryLock* lock_;
};

}  // namespace spillway::dispatch
