// SPDX-License-Identifier: Apache-2.0
// A queue of the native engine: shards, each with a ring per priority, a lock for those who take from it, and
// what its kind needs (flow_owners.h, reorder.h).
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/domain.h"
#include "dispatch/native/credit_pool.h"
#include "dispatch/native/flow_owners.h"
#include "dispatch/native/reorder.h"
#include "dispatch/native/try_lock.h"
#include "dispatch/slot_ring.h"
#include "dispatch/window.h"

namespace spillway::dispatch {

// The worker on whose behalf events are taken. Sequence numbers go on when a number is given to a new port.
struct Taker {
  uint32_t worker = 0;
  uint64_t sequence = 0;  // of the last event taken
  uint64_t flows_taken = 0, deferred = 0;
  CreditPurse* purse = nullptr;  // pays for what comes in by windows
};

// One look at a shard. In: `into` has room for `most` events, and so many workers share what waits there.
struct Pull {
  Event* into = nullptr;
  size_t most = 0;
  uint32_t workers = 1;
  // Out.
  uint64_t ticket = 0;       // of an ordered queue: the first event's; the others' follow it
  uint64_t wake_owners = 0;  // workers that events were set aside for, by bit
};

class NativeShard {
 public:
  NativeShard(Kind kind, const CompletedTable& completed, uint32_t credits, uint16_t starvation_guard,
              uint32_t flow_seed);

  // Producers. Thread-safe; the caller has the credits.
  void Put(const Event* events, size_t count, uint8_t priority, Op op = Op::kForward) {
    RingFor(priority).Put(events, count, op);
  }
  SlotRing& RingFor(uint8_t priority) {
    if (!(used_.load(std::memory_order_relaxed) & 1u << priority)) Open(priority);
    return *rings_[priority].load(std::memory_order_acquire);
  }

  // Whether there is something for somebody, about.
  bool Ready() const;
  // Whether a worker could take something now: what is set aside for another one is nothing to stay awake
  // for. True also while somebody else is taking. For those that are about to sleep.
  bool ReadyFor(uint32_t worker);
  // Whether there is something for a worker that sleeps; likewise.
  bool ReadyForOthers();

  // Takes events for the worker: those of its own flows that were set aside, and of the others its share, all
  // that wait divided by the workers and rounded up. How many; -1: somebody else is taking just now.
  int Take(Taker& taker, Pull& pull);

  // Events of a lost worker, oldest first; ordered: with the first one's ticket. A worker that leaves calls
  // it with none.
  void HandBack(uint32_t worker, const std::vector<Event>& events, const std::vector<uint64_t>& tickets);

  // One-sided writes wake nobody: while it has windows, its workers poll.
  bool HasWindows() const { return window_count_.load(std::memory_order_relaxed) != 0; }
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

  // Where events are taken from: rings in use, by bit, and the windows. Of a directed queue without windows
  // nobody has the lock, and nobody looks at what it guards.
  static constexpr unsigned kWindows = 1u << kPriorities;

  void Open(uint8_t priority);
  bool AnyRingReady() const {
    for (unsigned used = used_.load(std::memory_order_acquire); used != 0; used &= used - 1) {
      if (rings_[static_cast<size_t>(std::countr_zero(used))].load(std::memory_order_relaxed)->Ready())
        return true;
    }
    return false;
  }
  uint64_t WaitingAbout(unsigned used, uint64_t enough) const;
  size_t TakeReturned(Taker& taker, Event* into, size_t most, uint64_t& ticket);
  size_t TakeSetAside(Taker& taker, Event* into, size_t most, size_t& share);
  size_t TakeByPriority(unsigned sources, Taker& taker, Event* into, size_t most, uint64_t& wake_owners);
  size_t TakePriority(uint8_t priority, unsigned sources, Taker& taker, Event* into, size_t most,
                      uint64_t& wake_owners);
  size_t TakeWindow(Window& window, uint8_t priority, Taker& taker, Event* into, size_t most,
                    uint64_t& wake_owners);
  void OnWindowsChanged();
  size_t ClaimAll(Taker& taker, Event* events, size_t count, uint64_t& wake_owners,
                  uint32_t* counted = nullptr);
  void SetAside(Taker& taker, const Event& event, uint64_t& wake_owners, uint32_t* counted);
  size_t TakeRing(uint8_t priority, Taker& taker, Event* into, size_t most, uint64_t& wake_owners);

  const Kind kind_;
  const uint32_t credits_, capacity_;
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
  unsigned window_priorities_ = 0;  // that windows may have, by bit
  uint32_t window_aside_ = 0;       // events that each window may have set aside
  Window* lone_window_ = nullptr;   // where there is one, of one priority
  size_t turn_ = 0;                 // who goes first within a priority: a window, or behind them all the ring
  std::atomic<uint32_t> window_count_{0};
  std::atomic<uint32_t> aside_{0};  // events in owners_ and returned_: for those who only look
};

class NativeQueue {
 public:
  static constexpr size_t kMaxShards = 1 << kMaxShardBits;  // a word has a bit for each

  // flow_seed: of FlowHash.
  NativeQueue(uint16_t number, const QueueOptions& options, const CompletedTable& completed, uint32_t credits,
              uint16_t starvation_guard, uint32_t flow_seed);

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

  // Of so many workers, how many share a shard's events: with a shard per worker, each has its own.
  uint32_t WorkersPerShard(uint32_t workers) const {
    return (workers + (1u << shard_bits_) - 1) >> shard_bits_;
  }

  // Ports that dequeue from here, by worker number.
  std::atomic<uint64_t> linked{0};

 private:
  void Spread(const Event* events, size_t count, uint8_t priority, uint32_t port);

  const uint16_t number_;
  const QueueOptions options_;
  const int shard_bits_;
  const uint32_t flow_seed_;
  std::vector<std::unique_ptr<NativeShard>> shards_;
  TryLock occupancy_lock_;
  bool above_ = false;
};

}  // namespace spillway::dispatch
