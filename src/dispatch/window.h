// SPDX-License-Identifier: Apache-2.0
// The consumer's side of a window (window_layout.h), made, checked and given credits here. Attached to a
// queue, a window is one more source from which workers take; no thread of the host's touches an event before
// the worker that serves it.
//
// Nothing in the window is believed. The header is the consumer's own copy; every event is checked; a
// producer that writes rubbish closes its window, one that fills slots before they are granted overwrites its
// own events, one that stalls or dies leaves slots empty, and nothing of it costs others anything. What was
// read out of the window already goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "dispatch/event.h"
#include "dispatch/window_layout.h"

namespace spillway::dispatch {

struct WindowOptions {
  uint16_t queue = 0;
  uint32_t rings = 1;
  uint32_t slots = 1024;  // of each ring; a power of two, 64 .. 65536
  uint16_t priorities = 1;
};

struct WindowStatistics {
  uint64_t events = 0;      // taken by workers
  uint64_t bad_events = 0;  // refused; the first one closes the window
  WindowClosed closed = WindowClosed::kOpen;
};

// Take: under the lock of the shard that it is attached to. The rest: any thread.
class Window {
 public:
  // Memory of the window's own, shareable by its file descriptor (memfd, sealed against shrinking).
  // Errors: kBadInput for options out of range, kSystem.
  [[nodiscard]] static Result<std::shared_ptr<Window>> Create(const WindowOptions& options);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  [[nodiscard]] int Fd() const { return fd_; }
  [[nodiscard]] void* memory() const { return words_; }
  [[nodiscard]] const WindowHeader& header() const { return header_; }
  [[nodiscard]] WindowStatistics Statistics() const;
  void Close(WindowClosed why);

  // Whether a producer of this machine, mapped by RemoteProducer, has the ring. A system call.
  [[nodiscard]] bool HasProducer(uint32_t ring) const;

  // Whether some ring's next event has this priority. About, and cheap: a look at one slot per ring.
  [[nodiscard]] bool Ready(uint8_t priority) const {
    if (closed_.load(std::memory_order_relaxed) != 0 || priority >= header_.priorities) return false;
    for (uint32_t ring = 0; ring < header_.rings; ring++) {
      if (ReadyIn(ring, priority)) return true;
    }
    return false;
  }
  [[nodiscard]] bool Ready() const;  // of any priority
  // How many wait, about, and `most` where there are more.
  [[nodiscard]] size_t Waiting(size_t most) const;
  // Up to `most` events of this priority that passed all checks, with their op made kForward. A ring keeps
  // its order: what is behind an event of another priority waits for it.
  size_t Take(uint8_t priority, Event* into, size_t most);

  // Of its events, those that a worker took and set aside for another one: the shard's, under its lock.
  uint32_t set_aside = 0;

 private:
  struct Ring {
    std::atomic<uint64_t> head{0};  // the next place to read
    uint64_t granted = 0;           // as in the window's word, which may be written by anybody
  };

  Window(const WindowHeader& header, int fd, void* memory);
  // An event of a priority that none may have is ready at any: so it is looked at, and found out.
  bool ReadyIn(uint32_t ring, uint8_t priority) const {
    const uint64_t head = rings_[ring].head.load(std::memory_order_relaxed);
    const uint64_t meta = MetaAt(ring, head);
    if (!Filled(meta, LapOf(head, bits_))) return false;
    return header_.priorities == 1 || PriorityOf(meta) == priority || PriorityOf(meta) >= header_.priorities;
  }
  // Of a slot's second word.
  static bool Filled(uint64_t meta, uint64_t lap) { return !((meta ^ lap) & kLapBit); }
  static uint8_t PriorityOf(uint64_t meta) { return static_cast<uint8_t>(meta >> 48); }
  template <bool kMixed>
  size_t TakeRing(uint32_t ring, uint8_t priority, Event* into, size_t most);
  size_t Good(const Event* events, size_t count) const;
  Slot* SlotsOf(uint32_t ring) const {
    return reinterpret_cast<Slot*>(reinterpret_cast<char*>(words_) + kWindowRingsOffset) +
           size_t{ring} * header_.slots;
  }
  uint64_t MetaAt(uint32_t ring, uint64_t place) const {
    return SlotsOf(ring)[place & (header_.slots - 1)].meta.load(std::memory_order_acquire);
  }

  const WindowHeader header_;  // a copy: the one in the window may be written by anybody
  const int fd_;
  const int bits_;
  WindowWords* const words_;
  std::vector<Ring> rings_;
  uint32_t next_ring_ = 0;
  std::atomic<uint32_t> closed_{0};
  std::atomic<uint64_t> events_{0}, bad_events_{0};
};

}  // namespace spillway::dispatch
