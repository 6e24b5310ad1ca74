// SPDX-License-Identifier: Apache-2.0
// The way out of an ordered queue's shard. Events got consecutive tickets when they were handed out; whatever
// became of them (forwarded to somewhere, or ended) leaves in the order of the tickets.
//
// The worker whose ticket is next sends straight from its burst, then what others have left behind it; the
// others leave theirs in a cell each and go on. Nobody waits. A cell names the ticket it was filled for; a
// lap bit would not do, as what is sent straight leaves its cells untouched.
//
// Invariant: an event keeps its credit until its ticket has passed, also when it ended earlier, so tickets
// outstanding are at most the credits, and a ring of so many cells is never overrun.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "dispatch/native/try_lock.h"
#include "dispatch/slot_ring.h"

namespace spillway::dispatch {

class Reorder {
 public:
  explicit Reorder(size_t capacity) : mask_(capacity - 1), memory_(capacity) {}

  // What became of tickets [ticket, ticket + count): `events` were forwarded, or, when op is kRelease, they
  // ended (events is not read). `send(const Event*, size_t)` is called in ticket order, for these and for
  // what waited behind them; the return value is how many ended events have passed: their credits are free
  // now.
  template <class Send>
  uint32_t Finish(uint64_t ticket, const Event* events, size_t count, Op op, Send&& send) {
    uint32_t passed = 0;
    if (next_.load(std::memory_order_acquire) == ticket && lock_.TryHandingOver()) {
      // Only this ticket's holder can move `next_` on from it, so the turn is still ours.
      if (op == Op::kRelease)
        passed += static_cast<uint32_t>(count);
      else
        send(events, count);
      next_.store(ticket + count, std::memory_order_release);
      if (CellReady(ticket + count)) passed += SendReady(send);
      lock_.UnlockTakingOver();
      if (!CellReady(next_.load(std::memory_order_relaxed))) return passed;
    } else {
      Leave(ticket, events, count, op);
    }
    // What was left must be seen by somebody: here the try is needed even where nothing looks ready, for
    // `next_` may be stale; if it fails, the holder sees our cells when it looks again (try_lock.h).
    do {
      if (!lock_.TryHandingOver()) break;
      passed += SendReady(send);
      lock_.UnlockTakingOver();
    } while (CellReady(next_.load(std::memory_order_relaxed)));
    return passed;
  }

 private:
  bool CellReady(uint64_t ticket) const {
    return memory_.get()[ticket & mask_].filled.load(std::memory_order_acquire) == ticket + 1;
  }

  void Leave(uint64_t ticket, const Event* events, size_t count, Op op) {
    for (size_t i = 0; i < count; i++, ticket++) {
      Cell& cell = memory_.get()[ticket & mask_];
      if (op != Op::kRelease) cell.event = events[i];
      cell.event.op = op;
      cell.filled.store(ticket + 1, std::memory_order_release);
    }
  }

  // Not inline: its burst would be room that every Finish has to make.
  template <class Send>
  [[gnu::noinline]] uint32_t SendReady(Send& send) {
    uint32_t passed = 0;
    uint64_t next = next_.load(std::memory_order_relaxed);
    for (;;) {
      Event burst[32];
      size_t count = 0;
      const uint64_t first = next;
      while (count < std::size(burst)) {
        if (!CellReady(next)) break;
        const Cell& cell = memory_.get()[next & mask_];
        next++;
        if (cell.event.op == Op::kRelease)
          passed++;
        else
          burst[count++] = cell.event;
      }
      if (next == first) return passed;
      if (count > 0) send(burst, count);
      next_.store(next, std::memory_order_release);
    }
  }

  struct alignas(32) Cell {
    std::atomic<uint64_t> filled;  // ticket + 1
    Event event;                   // op: kForward or kRelease
  };

  const uint64_t mask_;
  const ZeroedArray<Cell> memory_;
  alignas(kCacheLine) std::atomic<uint64_t> next_{0};
  alignas(kCacheLine) TryLock lock_;
};

}  // namespace spillway::dispatch
