// SPDX-License-Identifier: Apache-2.0
// A window: memory of the consumer's, into which a remote producer (a SmartNIC, another process) writes
// events one-sidedly, by plain stores (`shm`) or by RDMA WRITE and FETCH_AND_ADD (`verbs`). docs/dispatch.md
// has the page byte by byte. All numbers are little endian.
//
//   0     WindowHeader: written once by the consumer
//   64    taken:   credits taken, ever; only producers change it, by fetch-and-add
//   128   granted: credits granted, ever; only the consumer writes it
//   192   closed:  not 0 once the consumer has closed the window, and why
//   4096  rings, one per producer of the window, each of `slots` slots of 16 bytes
//
// A credit is a free slot of the window. Who takes k of them adds k to `taken`; if then more than `granted`
// are taken it adds -k again and comes back later. Two words, each written by one side, since a NIC's atomics
// need not be atomic to the host's. A slot is 16 bytes: `user`, then the event's other word, whose top bit is
// the parity of the lap, inverted, as in slot_ring.h; op is 0. An RDMA WRITE of several slots may arrive line
// by line, in order of address.
#pragma once

#include <atomic>
#include <cstdint>

#include "dispatch/slot_ring.h"

namespace spillway::dispatch {

inline constexpr uint64_t kWindowMagic = 0x57594C4C49505357;  // "WSPILLYW"
inline constexpr uint32_t kWindowVersion = 1;
inline constexpr uint32_t kMostWindowRings = 64;
inline constexpr uint32_t kWindowRingsOffset = 4096;

struct WindowHeader {
  uint64_t magic = kWindowMagic;
  uint32_t version = kWindowVersion;
  uint32_t rings = 1;       // 1 .. kMostWindowRings
  uint32_t slots = 1024;    // of each ring, a power of two
  uint16_t queue = 0;       // the only queue that events may name
  uint16_t priorities = 1;  // events may have priorities below
  uint64_t bytes = 0;       // of the whole window
};
static_assert(sizeof(WindowHeader) <= 64);

struct WindowWords {
  WindowHeader header;
  alignas(64) std::atomic<uint64_t> taken;
  alignas(64) std::atomic<uint64_t> granted;
  alignas(64) std::atomic<uint32_t> closed;
};
static_assert(offsetof(WindowWords, taken) == 64 && offsetof(WindowWords, granted) == 128 &&
              offsetof(WindowWords, closed) == 192 && sizeof(WindowWords) <= kWindowRingsOffset);

inline uint64_t WindowBytes(uint32_t rings, uint32_t slots) {
  return kWindowRingsOffset + uint64_t{rings} * slots * sizeof(Slot);
}

// Why a window was closed.
enum class WindowClosed : uint32_t {
  kOpen = 0,
  kLeft = 1,       // by the consumer, in order
  kBadEvent = 2,   // an event named a queue, priority or op that it must not
  kOverdrawn = 3,  // slots were filled without credits, or `taken` went beyond any reason
};

}  // namespace spillway::dispatch
