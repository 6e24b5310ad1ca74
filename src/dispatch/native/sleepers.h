// SPDX-License-Identifier: Apache-2.0
// Workers that sleep in the kernel, and how they are woken without a cost to producers while nobody sleeps.
// When a worker goes to sleep is port.cc's.
//
// The race: a worker finds nothing and goes to sleep while a producer puts an event and finds nobody asleep.
// One of them must see the other, so between its store and its load each needs a full barrier. The worker,
// which is about to enter the kernel anyway, has membarrier(2) run one on every core that runs a thread of
// this process; a producer then needs only that the compiler keeps its order. Where the kernel has no
// membarrier, both do a read-modify-write.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "dispatch/native/flow_owners.h"

namespace spillway::dispatch {

class Sleepers {
 public:
  Sleepers();

  // The producer's side, after its events are in their slots: workers asleep among `linked` (bit worker - 1).
  uint64_t Asleep(uint64_t linked) {
    if (asymmetric_) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      return mask_.load(std::memory_order_relaxed) & linked;
    }
    return mask_.fetch_or(0, std::memory_order_seq_cst) & linked;
  }
  // Wakes one of them, if it still sleeps.
  bool WakeOne(uint64_t among);
  bool Wake(uint32_t worker);

  // The worker's side: announce, look once more, then Sleep, then (in any case) Withdraw.
  void Announce(uint32_t worker);
  // Until woken or `patience` is over; returns whether it was woken.
  bool Sleep(uint32_t worker, std::chrono::nanoseconds patience);
  void Withdraw(uint32_t worker);

  // Also written to on a wake-up; -1 for none.
  void SetEventFd(uint32_t worker, int fd) { beds_[worker].event_fd.store(fd); }

 private:
  struct alignas(kCacheLine) Bed {
    std::atomic<uint32_t> calls{0};  // futex word
    uint32_t heard = 0;              // of them, by the worker: at Announce
    std::atomic<int> event_fd{-1};
  };
  bool asymmetric_ = false;
  std::array<Bed, kMaxWorkers + 1> beds_;
  alignas(kCacheLine) std::atomic<uint64_t> mask_{0};
};

}  // namespace spillway::dispatch
