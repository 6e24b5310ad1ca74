// SPDX-License-Identifier: Apache-2.0
// What all who use RDMA share: owners of its libraries' handles, and the connection manager's events. Needs
// none of those libraries' headers.
//
// A process that forks must not have used it before (registered memory does not survive that): fork and exec.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"

struct ibv_comp_channel;
struct ibv_cq;
struct ibv_mr;
struct ibv_pd;
struct rdma_cm_id;
struct rdma_event_channel;

namespace spillway::rdma {

struct Deleter {
  void operator()(ibv_comp_channel* channel) const;
  void operator()(ibv_cq* queue) const;
  void operator()(ibv_mr* memory) const;
  void operator()(ibv_pd* domain) const;
  void operator()(rdma_cm_id* id) const;  // and its queue pair
  void operator()(rdma_event_channel* channel) const;
};
template <class T>
using Owned = std::unique_ptr<T, Deleter>;

// With a descriptor that does not block. Errors: kUnavailable on a machine without RDMA.
[[nodiscard]] Result<Owned<rdma_event_channel>> OpenEventChannel();

// A connection to be, or a listener. Errors: kSystem.
[[nodiscard]] Result<Owned<rdma_cm_id>> MakeId(rdma_event_channel* channel);

// Of a numeric IPv4 or IPv6 address. Errors: kBadInput.
[[nodiscard]] Result<sockaddr_storage> ParseAddress(const std::string& address, uint16_t port);

// Errors: kSystem, such as when more memory may not be locked.
[[nodiscard]] Result<Owned<ibv_mr>> Register(ibv_pd* domain, void* from, size_t bytes, int access);

// The same of the beginning of a dmabuf, such as a GPU's memory: `from` is what the other side calls its
// first byte, on a page's boundary. Errors: kSystem, such as a device that knows none (EOPNOTSUPP).
[[nodiscard]] Result<Owned<ibv_mr>> RegisterDmabuf(ibv_pd* domain, int dmabuf, void* from, size_t bytes,
                                                   int access);

// An error with errno's text: "RDMA: WHAT: WHY".
[[nodiscard]] tl::unexpected<Error> FailRdma(const std::string& what);

// The id takes connections to the address; port 0 picks one. Errors: kSystem.
[[nodiscard]] Result<void> ListenOn(rdma_cm_id* id, const sockaddr_storage& where, int backlog);

// An event of the connection manager, copied and acknowledged: an id with one that is not cannot go.
struct Event {
  int type = 0;  // rdma_cm_event_type
  int status = 0;
  rdma_cm_id* id = nullptr;
  std::array<std::byte, 256> data{};  // what the other side says with it
  size_t bytes = 0;

  // What the other side said, if it said so much.
  template <class T>
  [[nodiscard]] std::optional<T> As() const;
  [[nodiscard]] std::string Text() const;
};
// nullopt: none now. Errors: kSystem.
[[nodiscard]] Result<std::optional<Event>> NextEvent(rdma_event_channel* channel);
// The next event, whichever. Errors: kSystem, "no answer" after `until` among them.
[[nodiscard]] Result<Event> AwaitEvent(rdma_event_channel* channel,
                                       std::chrono::steady_clock::time_point until);
// Resolves address and route, so that a queue pair can be made. Errors: kSystem.
[[nodiscard]] Result<void> Resolve(rdma_event_channel* channel, rdma_cm_id* id,
                                   const sockaddr_storage& address,
                                   std::chrono::steady_clock::time_point until);

template <class T>
std::optional<T> Event::As() const {
  if (bytes < sizeof(T)) return std::nullopt;
  std::array<std::byte, sizeof(T)> copy;
  std::copy_n(data.begin(), sizeof(T), copy.begin());
  return std::bit_cast<T>(copy);
}

}  // namespace spillway::rdma
