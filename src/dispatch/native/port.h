// SPDX-License-Identifier: Apache-2.0
// A port of the engine `native`. One thread at a time; only with a deadline does another one look in, under
// guard_.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "dispatch/native/credit_pool.h"
#include "dispatch/native/domain.h"

namespace spillway::dispatch {

class NativePort final : public Port {
 public:
  // worker: 1 .. 64, or 0 for a producer. sequence: of the number's last event.
  NativePort(NativeDomain& domain, const PortOptions& options, uint32_t number, uint32_t worker,
             uint64_t sequence, std::vector<NativeQueue*> queues);
  ~NativePort() override;

  [[nodiscard]] size_t Enqueue(std::span<const Event> events) override;
  [[nodiscard]] size_t Dequeue(std::span<Event> into, std::chrono::nanoseconds patience) override;
  size_t Release(size_t count) override;
  [[nodiscard]] size_t Held() const override { return held_; }
  [[nodiscard]] bool Lost() const override { return lost_.load(std::memory_order_acquire); }
  [[nodiscard]] int EventFd() const override { return event_fd_; }
  [[nodiscard]] bool Arm() override;
  [[nodiscard]] PortStatistics Statistics() const override;

  // For the domain.
  uint32_t worker() const { return taker_.worker; }
  uint64_t sequence() const { return taker_.sequence; }
  const std::vector<NativeQueue*>& queues() const { return queues_; }
  // Hands events on if they have been held for longer than the deadline; returns how many, -1 if not hung.
  int64_t HandOnIfHung(std::chrono::steady_clock::time_point now);

 private:
  // Events held, oldest first, in runs: of an ordered shard with consecutive tickets, or of others.
  struct Run {
    NativeShard* ordered;
    uint64_t ticket;
    size_t count;
  };
  // Run by run is enough: the ring of runs is as long as events may be held.
  class Runs {
   public:
    bool Empty() const { return first_ == last_; }
    Run& Front() { return runs_[first_ % kMaxHeld]; }
    void PopFront() {
      if (++first_ == last_) Clear();
    }
    void Add(NativeShard* ordered, uint64_t ticket, size_t count) {
      if (!Empty()) {
        Run& back = runs_[(last_ - 1) % kMaxHeld];
        if (back.ordered == ordered && (!ordered || back.ticket + back.count == ticket)) {
          back.count += count;
          return;
        }
      }
      runs_[last_++ % kMaxHeld] = {ordered, ticket, count};
    }
    void Clear() { first_ = last_ = 0; }  // start over where it is warm
    // Takes the oldest `count` away, if they are of one run and that has no order to keep.
    bool TakeUnordered(size_t count) {
      Run& run = Front();
      if (run.ordered || run.count < count) return false;
      run.count -= count;
      if (run.count == 0) PopFront();
      return true;
    }

   private:
    uint32_t first_ = 0, last_ = 0;  // 8 bytes together: a wider store of 0 could cross a line
    std::vector<Run> runs_ = std::vector<Run>(kMaxHeld);
  };
  struct Turn {                // of a queue's shards
    size_t own = 0, next = 0;  // the last begun at as one's own; the next to begin with out of turn
    uint32_t looks = 0;
  };
  struct Held1 {  // a copy, kept only with a deadline
    Event event;
    NativeShard* shard;
    uint64_t ticket;
  };
  // Written by the port's thread, read by whoever asks.
  struct Counters {
    std::atomic<uint64_t> enqueued{0}, refused_credit{0}, refused_bad{0}, refused_lost{0}, dequeued{0},
        released{0}, forwarded{0}, pulls{0}, empty{0}, flows_taken{0}, deferred{0}, slept{0}, woke_others{0};
  };
  static void Count(std::atomic<uint64_t>& counter, uint64_t by = 1) {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  TryLock* Guard() { return guarded_ ? &guard_ : nullptr; }
  size_t EnqueueNow(const Event* events, size_t count);
  size_t EnqueueNew(NativeQueue& queue, const Event* events, size_t count, uint8_t priority);
  // The oldest `count` held leave: forwarded (events) or ended.
  void Finish(const Event* events, size_t count, Op op);
  void Send(const Event* events, size_t count);
  void SendRun(const Event* events, size_t count);
  void PublishCompleted() {
    domain_.completed()[taker_.worker].count.store(taker_.sequence - held_, std::memory_order_release);
    if (guarded_ && held_ > 0) held_since_ = std::chrono::steady_clock::now();
  }
  void ReleaseNow(size_t count);
  size_t Pass(Event* into, size_t most);
  size_t FirstShard(const NativeQueue& queue, Turn& turn, uint64_t linked, uint32_t workers);
  bool AnythingReady() const;
  bool AnythingReadyForMe();
  bool HasWindows() const;
  void WakeOwners(uint64_t owners);
  void WakeForRest() {
    if (domain_.sleepers().Asleep(~0ULL) != 0) [[unlikely]]
      WakeForRestNow();
  }
  void WakeForRestNow();

  NativeDomain& domain_;
  const uint32_t number_;
  const std::vector<NativeQueue*> queues_;
  std::vector<Turn> turns_;  // at each of them
  const Wait wait_;
  const bool implicit_release_;
  const bool guarded_;
  CreditPurse purse_;
  Taker taker_;
  size_t held_ = 0;
  Runs runs_;
  size_t next_queue_ = 0;
  bool busy_lock_ = false;  // the last pass met a lock: something may be there
  int event_fd_ = -1;
  Counters counters_;

  // Only with a deadline.
  TryLock guard_;
  std::deque<Held1> copies_;
  std::chrono::steady_clock::time_point held_since_;  // took while it held none, or ended some but not all
  std::atomic<bool> lost_{false};
};

}  // namespace spillway::dispatch
