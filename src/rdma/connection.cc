// SPDX-License-Identifier: Apache-2.0
#include "rdma/connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>

namespace spillway::rdma {

using Clock = std::chrono::steady_clock;

void Deleter::operator()(ibv_comp_channel* channel) const { ibv_destroy_comp_channel(channel); }
void Deleter::operator()(ibv_cq* queue) const { ibv_destroy_cq(queue); }
void Deleter::operator()(ibv_mr* memory) const { ibv_dereg_mr(memory); }
void Deleter::operator()(ibv_pd* domain) const { ibv_dealloc_pd(domain); }

void Deleter::operator()(rdma_cm_id* id) const {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  rdma_destroy_id(id);
}

void Deleter::operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }

tl::unexpected<Error> FailRdma(const std::string& what) {
  return Fail(errno == ENODEV ? ErrorCode::kUnavailable : ErrorCode::kSystem,
              fmt::format("RDMA: {}: {}", what, std::strerror(errno)));
}

Result<Owned<rdma_event_channel>> OpenEventChannel() {
  errno = 0;
  Owned<rdma_event_channel> channel(rdma_create_event_channel());
  if (channel == nullptr)
    return Fail(ErrorCode::kUnavailable,
                fmt::format("no RDMA device here (connection manager: {})", std::strerror(errno)));
  // The manager may be there without a device.
  int devices = 0;
  ibv_context** const contexts = rdma_get_devices(&devices);
  if (contexts != nullptr) rdma_free_devices(contexts);
  if (contexts == nullptr || devices == 0)
    return Fail(ErrorCode::kUnavailable, "no RDMA device here (none is known to the connection manager)");
  if (fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) != 0)
    return FailRdma("connection manager");
  return channel;
}

Result<Owned<rdma_cm_id>> MakeId(rdma_event_channel* channel) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) return FailRdma("connection");
  return Owned<rdma_cm_id>(id);
}

Result<sockaddr_storage> ParseAddress(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), fmt::format("{}", port).c_str(), &hints, &found) != 0)
    return Fail(ErrorCode::kBadInput,
                fmt::format("address {}: expected a numeric IPv4 or IPv6 address", address));
  sockaddr_storage storage{};
  std::memcpy(&storage, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return storage;
}

Result<void> ListenOn(rdma_cm_id* id, const sockaddr_storage& where, int backlog) {
  sockaddr_storage address = where;
  if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) != 0 || rdma_listen(id, backlog) != 0)
    return FailRdma("listening");
  return {};
}

Result<Owned<ibv_mr>> Register(ibv_pd* domain, void* from, size_t bytes, int access) {
  Owned<ibv_mr> memory(ibv_reg_mr(domain, from, bytes, access));
  if (memory == nullptr) return FailRdma(fmt::format("registering {} bytes", bytes));
  return memory;
}

Result<Owned<ibv_mr>> RegisterDmabuf(ibv_pd* domain, int dmabuf, void* from, size_t bytes, int access) {
  errno = 0;  // a library without the device's part of it may set none
  Owned<ibv_mr> memory(ibv_reg_dmabuf_mr(domain, 0, bytes, reinterpret_cast<uint64_t>(from), dmabuf, access));
  if (memory == nullptr) return FailRdma(fmt::format("registering {} bytes of a dmabuf", bytes));
  return memory;
}

std::string Event::Text() const {
  return fmt::format("{} ({})", rdma_event_str(static_cast<rdma_cm_event_type>(type)), status);
}

Result<std::optional<Event>> NextEvent(rdma_event_channel* channel) {
  rdma_cm_event* came = nullptr;
  while (rdma_get_cm_event(channel, &came) != 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR) return FailRdma("connection manager");
  }
  Event event;
  event.type = came->event;
  event.status = came->status;
  event.id = came->id;
  if (came->param.conn.private_data != nullptr) {
    event.bytes = std::min<size_t>(came->param.conn.private_data_len, event.data.size());
    std::memcpy(event.data.data(), came->param.conn.private_data, event.bytes);
  }
  rdma_ack_cm_event(came);
  return event;
}

Result<Event> AwaitEvent(rdma_event_channel* channel, Clock::time_point until) {
  for (;;) {
    const auto event = NextEvent(channel);
    if (!event) return tl::make_unexpected(event.error());
    if (*event) return **event;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return Fail(ErrorCode::kSystem, "no answer");
    pollfd wait = {channel->fd, POLLIN, 0};
    (void)poll(&wait, 1, static_cast<int>(left));
  }
}

Result<void> Resolve(rdma_event_channel* channel, rdma_cm_id* id, const sockaddr_storage& address,
                     Clock::time_point until) {
  sockaddr_storage to = address;
  const auto left = [&] {
    const auto span = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    return static_cast<int>(std::max<int64_t>(span.count(), 1));
  };
  const auto step = [&](int failed, const char* what, rdma_cm_event_type awaited) -> Result<void> {
    if (failed != 0) return Fail(ErrorCode::kSystem, fmt::format("{}: {}", what, std::strerror(errno)));
    const auto event = AwaitEvent(channel, until);
    if (!event) return tl::make_unexpected(event.error());
    if (event->type != awaited) return Fail(ErrorCode::kSystem, event->Text());
    return {};
  };
  if (auto done = step(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), left()), "address",
                       RDMA_CM_EVENT_ADDR_RESOLVED);
      !done)
    return done;
  return step(rdma_resolve_route(id, left()), "route", RDMA_CM_EVENT_ROUTE_RESOLVED);
}

}  // namespace spillway::rdma
