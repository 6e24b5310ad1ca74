// SPDX-License-Identifier: Apache-2.0
// What an executor and a gateway say when a slice's queue pair is connected, as the connection manager's
// private data, little endian. docs/gateway.md has what goes before and after.
#pragma once

#include <cstdint>

namespace spillway::gateway {

inline constexpr uint64_t kSliceMagic = 0x414D44524C4C5053;  // "SPLLRDMA"
inline constexpr uint32_t kSliceVersion = 1;
// A side that has no room for a message is asked so often, then its connection ends: there is always room.
inline constexpr uint8_t kRetries = 6;

struct SliceHello {
  uint64_t magic = kSliceMagic;
  uint32_t version = kSliceVersion;
  uint32_t slice = 0;    // which of the offer
  uint64_t ticket = 0;   // that the gateway gave for the offer
  uint64_t address = 0;  // of the slice's memory, there
  uint32_t key = 0;      // opens it for writing, over this connection alone
  uint32_t unused = 0;
};

struct SliceWelcome {
  uint64_t magic = kSliceMagic;
  uint32_t version = kSliceVersion;
  uint32_t unused = 0;
};
// What the connection manager carries: 56 bytes in a request, 196 in an acceptance.
static_assert(sizeof(SliceHello) == 40 && sizeof(SliceWelcome) == 16);

// Whether it comes from an executor of this version. What else it says is anybody's.
constexpr bool IsUnderstood(const SliceHello& hello) {
  return hello.magic == kSliceMagic && hello.version == kSliceVersion;
}
// Whether so many bytes from its address on are addresses at all. Whether they are the executor's is for its
// device to say.
constexpr bool HasRoomFor(const SliceHello& hello, uint64_t bytes) {
  return hello.address <= UINT64_MAX - bytes;
}

}  // namespace spillway::gateway
