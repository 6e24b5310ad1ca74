// SPDX-License-Identifier: Apache-2.0
#include "dispatch/verbs_cm.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>

namespace spillway::dispatch {

void VerbsDeleter::operator()(ibv_mr* memory) const { ibv_dereg_mr(memory); }

void VerbsDeleter::operator()(rdma_cm_id* id) const {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  rdma_destroy_id(id);
}

void VerbsDeleter::operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }

tl::unexpected<Error> FailVerbs(const std::string& what) {
  return Fail(errno == ENODEV ? ErrorCode::kUnavailable : ErrorCode::kSystem,
              fmt::format("RDMA: {}: {}", what, std::strerror(errno)));
}

Result<Verbs<rdma_event_channel>> OpenVerbsChannel() {
  errno = 0;
  Verbs<rdma_event_channel> channel(rdma_create_event_channel());
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
    return FailVerbs("connection manager");
  return channel;
}

Result<sockaddr_storage> VerbsAddress(const std::string& address, uint16_t port) {
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

}  // namespace spillway::dispatch
