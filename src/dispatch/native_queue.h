// SPDX-License-Identifier: Apache-2.0
// A queue of the native engine: shards, each with a ring per priority, a lock for those who take from it, and
// what its kind needs (flow_owners.h, reorder.h).
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/credit_pool.h"
#include "dispatch/domain.h"
#include "dispatch/flow_owners.h"
#include "dispatch/reorder.h"
#include "dispatch/slot_ring.h"
#include "dispatch/try_lock.h"
#include "dispatch/window.h"

namespace spillway::dispatch {

// The worker on whose behalf events are taken. Sequence numbers go on when a number is given to a new port.
struct Taker {
  uint32_t worker = 0;
  uint64_t sequence = 0;  // of the last event taken
  uint64_t flows_taken = 0, deferred = 0;
  CreditPurse* purse = nullptr;  // pays for what comes in by windows
};

class NativeShard {
 public:
  NativeShard(Kind kind, const CompletedTable& completed, uint32_t credits, uint16_t starvation_guard);

  // Producers. Thread-safe; the caller has the credits.
  void Put(const Event* events, size_t count, uint8_t priority, Op op = Op::kForward) {
    if (!(used_.load(std::memory_order_relaxed) & 1u << priority)) Open(priority);
    rings_[priority].load(std::memory_order_acquire)->Put(events, count, op);
  }

  // Whether a Take would find something, about.
  bool Ready() const;

  // Takes up to `most` events for the worker; `ticket` is the first one's of an ordered queue, whose events
  // are consecutive. -1: somebody else is taking just now. `wake_owners` gets the workers that events were
  // set aside for, by bit.
  int Take(Taker& taker, Event* into, size_t most, uint64_t& ticket, uint64_t& wake_owners);

  // Events of a lost worker, oldest first; ordered: with the first one's ticket. A worker that leaves calls
  // it with none.
  void HandBack(uint32_t worker, const std::vector<Event>& events, const std::vector<uint64_t>& tickets);

  void AttachWindow(std::shared_ptr<Window> window);
  void DetachWindow(const Window& window);

  Reorder& reorder() { return *reorder_; }
  uint64_t Waiting() const;
  uint64_t Enqueued() const;
  const void* NextSlot() const;
  Kind kind() const { return kind_; }

 private:
  struct Returned {
    Event event;
    uint64_t ticket;
  };

  void Open(uint8_t priority);
  size_t TakeReturned(Taker& taker, Event* into, size_t most, uint64_t& ticket);
  size_t TakeSetAside(Taker& taker, Event* into, size_t most);
  size_t TakeWindows(Taker& taker, Event* into, size_t most, uint64_t& wake_owners);
  void SetAside(Taker& taker, const Event& event, uint64_t& wake_owners);
  size_t ClaimAll(Taker& taker, Event* events, size_t count, uint64_t& wake_owners);
  size_t TakeRing(uint8_t priority, Taker& taker, Event* into, size_t most, uint64_t& wake_owners);

  const Kind kind_;
  const uint32_t capacity_;
  const uint16_t starvation_guard_;
  // Written when a priority is first used, read by everybody.
  std::atomic<uint8_t> used_{0};
  std::array<std::atomic<SlotRing*>, kPriorities> rings_{};
  std::array<std::unique_ptr<SlotRing>, kPriorities> ring_owners_;
  TryLock open_lock_;

  alignas(kCacheLine) TryLock lock_;
  // Below: under lock_. A directed queue's one port does not take it.
  uint32_t takes_ = 0;
  uint64_t next_ticket_ = 0;
  std::unique_ptr<FlowOwners> owners_;
  std::unique_ptr<Reorder> reorder_;
  std::deque<Returned> returned_;
  std::vector<std::shared_ptr<Window>> windows_;
  std::atomic<uint32_t> window_count_{0};
  std::atomic<uint32_t> aside_{0};  // events in owners_ and returned_: for those who only look
};

class NativeQueue {
 public:
  NativeQueue(uint16_t number, const QueueOptions& options, const CompletedTable& completed, uint32_t credits,
              uint16_t starvation_guard);

  // One burst of one priority; `port` spreads the events of an unordered queue.
  void Put(const Event* events, size_t count, uint8_t priority, uint32_t port) {
    if (shards_.size() == 1)
      shards_[0]->Put(events, count, priority);
    else
      Spread(events, count, priority, port);
  }

  NativeShard& shard(size_t at) { return *shards_[at]; }
  size_t shards() const { return shards_.size(); }
  uint16_t number() const { return number_; }
  Kind kind() const { return options_.kind; }
  const std::string& name() const { return options_.name; }
  uint64_t Waiting() const;
  uint64_t Enqueued() const;

  bool watched() const { return options_.on_occupancy != nullptr; }
  void LookAtOccupancy();

  // Ports that dequeue from here, by worker number.
  std::atomic<uint64_t> linked{0};

 private:
  void Spread(const Event* events, size_t count, uint8_t priority, uint32_t port);

  const uint16_t number_;
  const QueueOptions options_;
  const int shard_bits_;
  std::vector<std::unique_ptr<NativeShard>> shards_;
  TryLock occupancy_lock_;
  bool above_ = false;
};

}  // namespace spillway::dispatch
