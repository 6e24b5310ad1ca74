// SPDX-License-Identifier: Apache-2.0
// The credits of a domain: one for each event in it. Ports keep a few to themselves (CreditPurse), so that
// most calls do not touch the pool. Sum of pool, purses and events in the domain: constant.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "dispatch/slot_ring.h"

namespace spillway::dispatch {

// Thread-safe. Each change is one read-modify-write with acquire and release, so who takes a credit sees all
// that was done before any credit up to then was given back: slots may be written again (slot_ring.h).
class CreditPool {
 public:
  explicit CreditPool(uint32_t credits) : free_(credits) {}

  // At least `need` if there are so many, up to `wish`; else what is there.
  uint32_t Take(uint32_t wish) {
    uint32_t free = free_.load(std::memory_order_relaxed);
    for (;;) {
      const uint32_t taken = std::min(free, wish);
      if (taken == 0) return 0;
      if (free_.compare_exchange_weak(free, free - taken, std::memory_order_acq_rel,
                                      std::memory_order_relaxed))
        return taken;
    }
  }
  void Give(uint32_t credits) { free_.fetch_add(credits, std::memory_order_acq_rel); }
  uint32_t Free() const { return free_.load(std::memory_order_relaxed); }

 private:
  alignas(kCacheLine) std::atomic<uint32_t> free_;
};

// One port's; not thread-safe. Never holds more than `quantum` between calls.
class CreditPurse {
 public:
  CreditPurse(CreditPool& pool, uint32_t quantum) : pool_(pool), quantum_(quantum) {}
  ~CreditPurse() { Empty(); }
  CreditPurse(const CreditPurse&) = delete;
  CreditPurse& operator=(const CreditPurse&) = delete;

  // `need`, or fewer where the pool is out. `refilled`: whether the pool was asked.
  uint32_t Take(uint32_t need, bool& refilled) {
    if (held_ < need) {
      held_ += pool_.Take(std::max(need, quantum_) - held_);
      refilled = true;
    }
    const uint32_t taken = std::min(need, held_);
    held_ -= taken;
    return taken;
  }
  void Put(uint32_t credits) {
    held_ += credits;
    if (held_ > quantum_) Empty();
  }
  void Empty() {
    if (held_ > 0) pool_.Give(held_);
    held_ = 0;
  }

 private:
  CreditPool& pool_;
  const uint32_t quantum_;
  uint32_t held_ = 0;
};

}  // namespace spillway::dispatch
