// SPDX-License-Identifier: Apache-2.0
// The bytes that both ends exchange when they connect a queue pair (the connection manager's private data,
// little endian): executor and gateway for a slice, client and gateway for a window. docs/gateway.md has
// what goes before and after.
#pragma once

#include <cstdint>

namespace spillway::gateway {

inline constexpr uint64_t kSliceMagic = 0x414D44524C4C5053;  // "SPLLRDMA"
inline constexpr uint32_t kSliceVersion = 2;
// A side that has no room for a message is asked so often, then its connection ends: there is always room.
inline constexpr uint8_t kRetries = 6;

struct SliceHello {
  uint64_t magic = kSliceMagic;
  uint32_t version = kSliceVersion;
  uint32_t slice = 0;   // which of the offer
  uint64_t ticket = 0;  // that the gateway gave for the offer
  // Addresses, there, of the slice's memory up to CellLayout::HostPart(), which may be a GPU's, and from
  // there on. The keys open them for writing, over this connection alone.
  uint64_t inputs = 0, host = 0;
  uint32_t inputs_key = 0, host_key = 0;
};

struct SliceWelcome {
  uint64_t magic = kSliceMagic;
  uint32_t version = kSliceVersion;
  uint32_t unused = 0;
};

inline constexpr uint64_t kWindowMagic = 0x4E49574D444C5053;  // "SPLDMWIN"
inline constexpr uint32_t kWindowVersion = 1;

struct WindowHello {
  uint64_t magic = kWindowMagic;
  uint32_t version = kWindowVersion;
  uint32_t key = 0;      // opens the client's own copy for writing, over this connection alone
  uint64_t ticket = 0;   // that the gateway gave for the window
  uint64_t address = 0;  // of the copy, there
};

struct WindowWelcome {
  uint64_t magic = kWindowMagic;
  uint32_t version = kWindowVersion;
  uint32_t key = 0;      // opens the window for writing, over this connection alone
  uint64_t address = 0;  // of the window, at the gateway
};
// What the connection manager carries: 56 bytes in a request, 196 in an acceptance.
static_assert(sizeof(SliceHello) == 48 && sizeof(SliceWelcome) == 16 && sizeof(WindowHello) == 32 &&
              sizeof(WindowWelcome) == 24);

// Whether it comes from an executor, or a client, of this version. What else it says is anybody's.
constexpr bool IsUnderstood(const SliceHello& hello) {
  return hello.magic == kSliceMagic && hello.version == kSliceVersion;
}
constexpr bool IsUnderstood(const WindowHello& hello) {
  return hello.magic == kWindowMagic && hello.version == kWindowVersion;
}
constexpr bool IsUnderstood(const WindowWelcome& welcome) {
  return welcome.magic == kWindowMagic && welcome.version == kWindowVersion;
}
// Whether so many bytes from an address on are addresses at all. Whether they are the other side's is for its
// device to say.
constexpr bool IsRoomAt(uint64_t address, uint64_t bytes) { return address <= UINT64_MAX - bytes; }
template <class Hello>
constexpr bool HasRoomFor(const Hello& hello, uint64_t bytes) {
  return IsRoomAt(hello.address, bytes);
}

}  // namespace spillway::gateway
