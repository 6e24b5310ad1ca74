// SPDX-License-Identifier: Apache-2.0
// A window: memory of the consumer's, into which a remote producer (a SmartNIC, another process) writes
// events one-sidedly, by plain stores (`shm`) or by RDMA WRITE (`verbs`). docs/dispatch.md has the page byte
// by byte. All numbers are little endian.
//
//   0     WindowHeader: written once by the consumer
//   64    closed: not 0 once the consumer has closed the window, and why
//   128   RingWords of each ring
//   8192  rings, one per producer of the window, each of `slots` slots of 16 bytes
//
// The places of a ring are numbered from 0 on, and place p is slot p % slots. A producer may fill the places
// below its ring's `granted`. So its credits are `granted` minus the next place that it will fill: they are
// nobody else's, no word says how many were taken, and none are lost with a producer that dies. Its successor
// adds 1 to `epoch`, goes on at the first place from `granted` - `slots` that is not filled, and empties
// those after it: of a burst that its predecessor had half written. Who finds another epoch than its own has
// been replaced, and writes no more.
//
// A slot is 16 bytes: `user`, then the event's other word, whose top bit is the parity of the lap, inverted,
// as in slot_ring.h; op is 0. An RDMA WRITE of several slots may arrive line by line, in order of address.
#pragma once

#include <fcntl.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "dispatch/slot_ring.h"

namespace spillway::dispatch {

inline constexpr uint64_t kWindowMagic = 0x57594C4C49505357;  // "WSPILLYW"
inline constexpr uint32_t kWindowVersion = 2;
inline constexpr uint32_t kMaxWindowRings = 64;
inline constexpr uint32_t kWindowRingsOffset = 8192;

struct WindowHeader {
  uint64_t magic = kWindowMagic;
  uint32_t version = kWindowVersion;
  uint32_t rings = 1;       // 1 .. kMaxWindowRings
  uint32_t slots = 1024;    // of each ring, a power of two
  uint16_t queue = 0;       // the only queue that events may name
  uint16_t priorities = 1;  // events may have priorities below
  uint64_t bytes = 0;       // of the whole window
};
static_assert(sizeof(WindowHeader) <= 64);

struct alignas(64) RingWords {
  std::atomic<uint64_t> granted;  // the first place that may not be filled yet; only the consumer writes it
  std::atomic<uint64_t> epoch;    // producers that have had the ring; each adds one when it takes it over
};

struct WindowWords {
  WindowHeader header;
  alignas(64) std::atomic<uint32_t> closed;
  alignas(64) std::array<RingWords, kMaxWindowRings> rings;
};
static_assert(offsetof(WindowWords, closed) == 64 && offsetof(WindowWords, rings) == 128 &&
              sizeof(RingWords) == 64 && sizeof(WindowWords) <= kWindowRingsOffset);

inline uint64_t WindowBytes(uint32_t rings, uint32_t slots) {
  return kWindowRingsOffset + uint64_t{rings} * slots * sizeof(Slot);
}

// A producer of the consumer's machine holds a lock on the byte of the file that has its ring's number, of an
// open file description of its own (fcntl's F_OFD_SETLK). So a ring has one producer at a time, and the
// kernel frees it when that one dies.
inline struct flock RingLock(uint32_t ring) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = ring;
  lock.l_len = 1;
  return lock;
}

// Why a producer can put nothing more.
enum class WindowClosed : uint32_t {
  kOpen = 0,
  kLeft = 1,      // by the consumer, in order
  kBadEvent = 2,  // an event named a queue, priority or op that it must not
  kReplaced = 3,  // not closed: another producer has taken the ring over; never in `closed`
};

}  // namespace spillway::dispatch
