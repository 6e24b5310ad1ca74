// SPDX-License-Identifier: Apache-2.0
// What both sides of a window over RDMA verbs say when they connect.
//
// The producer's connection request carries a VerbsHello, the host's acceptance a VerbsWelcome, its refusal a
// VerbsRefusal, each as the connection manager's private data, little endian.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "dispatch/window_layout.h"

namespace spillway::dispatch {

// A secret that hosts may ask of producers; all zero: none. It crosses the network as it is.
inline constexpr size_t kMaxVerbsToken = 32;
using VerbsToken = std::array<char, kMaxVerbsToken>;

struct VerbsHello {
  uint64_t magic = kWindowMagic;
  uint32_t version = kWindowVersion;
  uint32_t unused = 0;
  VerbsToken token{};  // producers of before there were any send 16 bytes
};

struct VerbsWelcome {
  uint64_t magic = kWindowMagic;
  uint32_t version = kWindowVersion;
  uint32_t rings = 1;
  uint32_t ring = 0;     // the producer's
  uint32_t slots = 0;    // of each ring
  uint64_t address = 0;  // of the window's first byte
  // Keys of the parts of the window. The producer can write its ring and read the words; nothing else of the
  // host's memory can be reached with them.
  uint32_t words_key = 0, ring_key = 0;
  uint64_t unused = 0;
};
// What the connection manager carries: 56 bytes in a request, 196 in an acceptance.
static_assert(sizeof(VerbsHello) == 48 && sizeof(VerbsWelcome) == 48);

constexpr bool IsUnderstood(const VerbsHello& hello) {
  return hello.magic == kWindowMagic && hello.version == kWindowVersion;
}
constexpr bool IsUnderstood(const VerbsWelcome& welcome) {
  return welcome.magic == kWindowMagic && welcome.version == kWindowVersion;
}
// In a time that tells nothing of where they differ.
constexpr bool AreSame(const VerbsToken& a, const VerbsToken& b) {
  int differs = 0;
  for (size_t i = 0; i < kMaxVerbsToken; i++) differs |= a[i] ^ b[i];
  return differs == 0;
}
// Of at most so many bytes as there is room for, none of them 0.
constexpr VerbsToken VerbsTokenOf(std::string_view text) {
  VerbsToken token{};
  std::copy(text.begin(), text.end(), token.begin());
  return token;
}
constexpr bool IsVerbsToken(std::string_view text) {
  return text.size() <= kMaxVerbsToken && text.find('\0') == text.npos;
}
inline constexpr const char* kExpectedVerbsToken = "token: expected at most 32 bytes, none of them 0";

// Whether there can be such a window: its size says how much memory the producer takes for its copy, and
// every byte of it has an address.
inline bool IsWindow(const VerbsWelcome& welcome) {
  return welcome.rings == 1 && welcome.ring == 0 && std::has_single_bit(welcome.slots) &&
         welcome.slots >= 64 && welcome.slots <= 65536 &&
         welcome.address <= UINT64_MAX - WindowBytes(welcome.rings, welcome.slots);
}

// The part of a window that producers may read: up to the words of its only ring.
inline constexpr uint32_t kWindowWordsBytes = offsetof(WindowWords, rings) + sizeof(RingWords);
static_assert(kWindowWordsBytes == 192);

enum class VerbsRefusal : uint32_t {
  kVersion = 1,  // the host speaks another version of the layout
  kFull = 2,     // as many producers as it takes are connected
  kFailed = 3,   // the host could not make the window
  kDenied = 4,   // the token is not the host's
};

}  // namespace spillway::dispatch
