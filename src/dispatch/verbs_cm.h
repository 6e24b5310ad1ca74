// SPDX-License-Identifier: Apache-2.0
// What both sides of a window over RDMA verbs share: what they say when they connect, and owners of the RDMA
// libraries' handles. Only for verbs_*.cc; needs none of those libraries' headers.
//
// The producer's connection request carries a VerbsHello, the host's acceptance a VerbsWelcome, its refusal a
// VerbsRefusal, each as the connection manager's private data, little endian.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "dispatch/window_layout.h"
#include "model/error.h"

struct ibv_mr;
struct rdma_cm_event;
struct rdma_cm_id;
struct rdma_event_channel;

namespace spillway::dispatch {

struct VerbsHello {
  uint64_t magic = kWindowMagic;
  uint32_t version = kWindowVersion;
  uint32_t unused = 0;
};

struct VerbsWelcome {
  uint64_t magic = kWindowMagic;
  uint32_t version = kWindowVersion;
  uint32_t rings = 1;
  uint32_t ring = 0;     // the producer's
  uint32_t slots = 0;    // of each ring
  uint64_t address = 0;  // of the window's first byte
  // Keys of the parts of the window. The producer can write its ring, add to `taken`, and read the words;
  // nothing else of the host's memory can be reached with them.
  uint32_t words_key = 0, taken_key = 0, ring_key = 0;
  uint32_t unused = 0;
};
// What the connection manager carries: 56 bytes in a request, 196 in an acceptance.
static_assert(sizeof(VerbsHello) == 16 && sizeof(VerbsWelcome) == 48);

// The part of a window that producers may read.
inline constexpr uint32_t kWindowWordsBytes = 256;

enum class VerbsRefusal : uint32_t {
  kVersion = 1,  // the host speaks another version of the layout
  kFull = 2,     // as many producers as it takes are connected
  kFailed = 3,   // the host could not make the window
};

struct VerbsDeleter {
  void operator()(ibv_mr* memory) const;
  void operator()(rdma_cm_id* id) const;  // and its queue pair
  void operator()(rdma_event_channel* channel) const;
};
template <class T>
using Verbs = std::unique_ptr<T, VerbsDeleter>;

// With a descriptor that does not block. Errors: kUnavailable on a machine without RDMA.
[[nodiscard]] Result<Verbs<rdma_event_channel>> OpenVerbsChannel();

// Of a numeric IPv4 or IPv6 address. Errors: kBadInput.
[[nodiscard]] Result<sockaddr_storage> VerbsAddress(const std::string& address, uint16_t port);

// An error with errno's text: "RDMA: WHAT: WHY".
[[nodiscard]] tl::unexpected<Error> FailVerbs(const std::string& what);

}  // namespace spillway::dispatch
