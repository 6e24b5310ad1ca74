// SPDX-License-Identifier: Apache-2.0
// A ring of events, many producers, one consumer at a time. Producers claim places by one fetch_add for a
// whole burst and never look whether there is room: the caller's credits see to that.
//
// A slot says itself whether it is filled: the top bit of its second word is the parity of the lap that wrote
// it. So the consumer reads no index of the producers', and one event at rest costs one cache line on its
// way.
//
// Invariant: at most `capacity` events hold credits at once (CreditPool). Then the slot that place p claims
// is read: were event p - capacity still in it, p - capacity .. p would be capacity + 1 events with a credit
// each. Memory order: a slot's words are published by the release store of its `meta`. That the slot was read
// before it is written again follows credits: its reader's credit went back to the pool (release), a producer
// of one of the events up to p took it (acquire), and claims of places follow each other by acq_rel on
// `tail_`.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <new>

#include "dispatch/event.h"

namespace spillway::dispatch {

inline constexpr size_t kCacheLine = 64;

// Event <-> its two words: flow 0-31, queue 32-47, priority 48-55, op 56-62, lap 63; and user.
inline constexpr uint64_t kLapBit = 1ULL << 63;
inline constexpr uint64_t kOpShift = 56;

inline uint64_t MetaOf(const Event& event) {
  uint64_t meta;
  std::memcpy(&meta, &event, sizeof(meta));
  return meta;
}
inline void SetMeta(Event& event, uint64_t meta) {
  std::memcpy(static_cast<void*>(&event), &meta, sizeof(meta));
}
static_assert(std::endian::native == std::endian::little,
              "the words of a slot are laid out for little endian");

// What Enqueue compares to find runs: queue, priority and op in one number. Read one by one, as a caller has
// just written one of them: a wider load than the store before it waits until that store has left the core's
// buffer.
inline uint32_t KeyOf(const Event& event) {
  const uint32_t queue = __atomic_load_n(&event.queue, __ATOMIC_RELAXED);
  const uint32_t priority = __atomic_load_n(&event.priority, __ATOMIC_RELAXED);
  Op op;
  __atomic_load(&event.op, &op, __ATOMIC_RELAXED);
  return queue | priority << 16 | static_cast<uint32_t>(op) << 24;
}

// The word that says "filled" is the last in memory: what writes a slot from afar does so in order of
// address.
struct alignas(16) Slot {
  std::atomic<uint64_t> user, meta;
};

// Zeroed memory that costs nothing until it is touched. T: all zero is a state it may start from.
template <class T>
class ZeroedArray {
 public:
  explicit ZeroedArray(size_t count) : bytes_(count * sizeof(T)) {
    void* at =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    elements_ = static_cast<T*>(at);
  }
  ~ZeroedArray() { munmap(elements_, bytes_); }
  ZeroedArray(const ZeroedArray&) = delete;
  ZeroedArray& operator=(const ZeroedArray&) = delete;
  T* get() const { return elements_; }

 private:
  size_t bytes_;
  T* elements_;
};

// The lap bit that place `place` is written with in a ring of 2^bits slots; memory starts as zero, so lap 0
// has 1.
inline uint64_t LapOf(uint64_t place, int bits) { return (~(place >> bits) & 1) << 63; }

// The line is on its way, to be written. Not __builtin_prefetch: without an option of the compiler it asks
// for a line to read, and one that another core has is then fetched twice.
inline void PrefetchForWrite(const void* at) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

class SlotRing {
 public:
  explicit SlotRing(size_t capacity)  // a power of two
      : bits_(std::countr_zero(capacity)), mask_(capacity - 1), memory_(capacity), slots_(memory_.get()) {}

  // Any thread that has credits for the events. `op` replaces the events' own.
  void Put(const Event* events, size_t count, Op op) { Fill(Claim(count), events, count, op); }

  // Put in two steps, for who has events for several rings: all claims first, since a claim waits until the
  // stores before it have reached memory, one line of another core after the other.
  uint64_t Claim(size_t count) { return tail_.fetch_add(count, std::memory_order_acq_rel); }
  void ExpectFill(uint64_t place) const { PrefetchForWrite(&slots_[place & mask_]); }
  void Fill(uint64_t place, const Event* events, size_t count, Op op) {
    const uint64_t op_bits = static_cast<uint64_t>(op) << kOpShift;
    const size_t at = place & mask_;
    const size_t before_wrap = std::min<size_t>(count, mask_ + 1 - at);
    if (before_wrap < count)
      Store(slots_, events + before_wrap, count - before_wrap, LapOf(place + before_wrap, bits_) | op_bits);
    Store(slots_ + at, events, before_wrap, LapOf(place, bits_) | op_bits);
    // The lines of as many events more, so that they are here when the next burst is written.
    for (uint64_t next = place + count; next < place + 2 * count; next += kCacheLine / sizeof(Slot))
      PrefetchForWrite(&slots_[next & mask_]);
  }

  // The consumer's side; `head_` is read by others only to judge whether a look is worth while.
  class Reader {
   public:
    explicit Reader(SlotRing& ring) : ring_(ring), head_(ring.head_.load(std::memory_order_relaxed)) {}
    ~Reader() { ring_.head_.store(head_, std::memory_order_relaxed); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // False: nothing is there (or its producer is between claim and store).
    bool Peek(Event& event) const {
      const Slot& slot = ring_.slots_[head_ & ring_.mask_];
      const uint64_t meta = slot.meta.load(std::memory_order_acquire);
      if ((meta ^ LapOf(head_, ring_.bits_)) & kLapBit) return false;
      SetMeta(event, meta & ~kLapBit);
      event.user = slot.user.load(std::memory_order_relaxed);
      return true;
    }
    void Next() { head_++; }

    // Peek and Next, up to `most` times.
    size_t Take(Event* into, size_t most) {
      size_t taken = 0;
      while (taken < most) {
        const size_t at = head_ & ring_.mask_;
        const size_t part = std::min<size_t>(most - taken, ring_.mask_ + 1 - at);
        const uint64_t lap = LapOf(head_, ring_.bits_);
        const Slot* const slots = ring_.slots_ + at;
        size_t i = 0;
        for (; i < part; i++) {
          const uint64_t meta = slots[i].meta.load(std::memory_order_acquire) ^ lap;
          if (meta & kLapBit) break;
          SetMeta(into[taken + i], meta);
          into[taken + i].user = slots[i].user.load(std::memory_order_relaxed);
        }
        taken += i;
        head_ += i;
        if (i < part) break;
      }
      return taken;
    }

    // What comes next is wanted soon: on its way while what was taken is worked on.
    void Expect(size_t count) const {
      for (size_t next = 0; next < count; next += kCacheLine / sizeof(Slot))
        __builtin_prefetch(&ring_.slots_[(head_ + next) & ring_.mask_]);
    }

   private:
    SlotRing& ring_;
    uint64_t head_;
  };

  bool Ready() const {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    return !((slots_[head & mask_].meta.load(std::memory_order_acquire) ^ LapOf(head, bits_)) & kLapBit);
  }
  // Whether `count` events wait, by a look at one slot. About right while others work.
  bool HasWaiting(uint64_t count) const {
    if (count > mask_ + 1) return false;
    const uint64_t last = head_.load(std::memory_order_relaxed) + count - 1;
    return !((slots_[last & mask_].meta.load(std::memory_order_acquire) ^ LapOf(last, bits_)) & kLapBit);
  }
  const void* NextSlot() const { return &slots_[head_.load(std::memory_order_relaxed) & mask_]; }

  // About right while others work.
  uint64_t Claimed() const { return tail_.load(std::memory_order_relaxed); }
  uint64_t Waiting() const {
    const uint64_t head = head_.load(std::memory_order_relaxed), tail = Claimed();
    return tail > head ? tail - head : 0;
  }

 private:
  // From the last to the first: the consumer waits for the first, so it comes for these cache lines once they
  // are all written, and does not take them away from under the producer's hands.
  static void Store(Slot* slots, const Event* events, size_t count, uint64_t top) {
    for (size_t i = count; i-- > 0;) {
      slots[i].user.store(events[i].user, std::memory_order_relaxed);
      slots[i].meta.store((MetaOf(events[i]) << 8 >> 8) | top, std::memory_order_release);
    }
  }

  const int bits_;
  const uint64_t mask_;
  const ZeroedArray<Slot> memory_;
  Slot* const slots_;
  alignas(kCacheLine) std::atomic<uint64_t> tail_{0};
  alignas(kCacheLine) std::atomic<uint64_t> head_{0};
};

}  // namespace spillway::dispatch
