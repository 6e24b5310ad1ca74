// SPDX-License-Identifier: Apache-2.0
// The engine `native`: no scheduler thread; checks its queues' and ports' options. Producers put events into
// rings; whichever worker is free takes from them under a lock it never waits for, and with an event the flow
// it belongs to. docs/dispatch.md has the whole argument. Thread-safe, but for what is a port's (port.h).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "dispatch/domain.h"
#include "dispatch/native/credit_pool.h"
#include "dispatch/native/queue.h"
#include "dispatch/native/sleepers.h"

namespace spillway::dispatch {

inline constexpr size_t kMaxQueues = 1024;

class NativePort;

class NativeDomain final : public Domain {
 public:
  explicit NativeDomain(const DomainOptions& options);
  ~NativeDomain() override;

  [[nodiscard]] Result<uint16_t> AddQueue(const QueueOptions& options) override;
  [[nodiscard]] Result<std::unique_ptr<Port>> AddPort(const PortOptions& options) override;
  [[nodiscard]] Result<std::shared_ptr<Window>> OpenWindow(const WindowOptions& options) override;
  void CloseWindow(const Window& window) override;
  size_t HandOnHung() override;
  [[nodiscard]] DomainStatistics Statistics() const override;

  // For ports.
  NativeQueue* queue(uint16_t number) const {
    return number < kMaxQueues ? queues_[number].load(std::memory_order_acquire) : nullptr;
  }
  void WakeFor(const NativeQueue& queue) {
    if (const uint64_t asleep = sleepers_.Asleep(queue.linked.load(std::memory_order_relaxed))) [[unlikely]]
      sleepers_.WakeOne(asleep);
  }
  CreditPool& credits() { return credits_; }
  CompletedTable& completed() { return completed_; }
  Sleepers& sleepers() { return sleepers_; }
  const DomainOptions& options() const { return options_; }
  void LookAtOccupancy();
  void Remove(NativePort& port);

 private:
  const DomainOptions options_;
  CreditPool credits_;
  const uint32_t flow_seed_;
  CompletedTable completed_;
  Sleepers sleepers_;
  std::array<std::atomic<NativeQueue*>, kMaxQueues> queues_{};

  mutable base::Mutex mutex_;  // never taken by Enqueue or Dequeue
  std::vector<std::unique_ptr<NativeQueue>> queue_owners_ SPILLWAY_GUARDED_BY(mutex_);
  std::vector<NativePort*> ports_ SPILLWAY_GUARDED_BY(mutex_);
  uint64_t workers_ SPILLWAY_GUARDED_BY(mutex_) = 0;  // numbers in use, by bit
  // Where a number's next port goes on.
  std::array<uint64_t, kMaxWorkers + 1> sequences_ SPILLWAY_GUARDED_BY(mutex_){};
  PortStatistics departed_ SPILLWAY_GUARDED_BY(mutex_);
  uint64_t workers_lost_ SPILLWAY_GUARDED_BY(mutex_) = 0, events_handed_on_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> any_watched_{false};
};

// A quarter of the credits may rest in the ports' purses.
inline uint32_t PurseQuantum(const DomainOptions& options) {
  return std::clamp<uint32_t>(options.credits / (4u * options.ports), 1, 256);
}

}  // namespace spillway::dispatch
