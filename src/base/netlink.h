// SPDX-License-Identifier: Apache-2.0
// Requests to the kernel by netlink, and its news. Over libmnl, which takes messages apart.
#pragma once

#include <libmnl/libmnl.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace spillway::base {

// One message: header, body, attributes; at most 512 bytes.
template <class Body>
class NetlinkRequest {
 public:
  // `flags`: NLM_F_..., beside NLM_F_REQUEST.
  NetlinkRequest(uint16_t type, uint16_t flags) {
    mnl_nlmsg_put_header(bytes_.data());
    header()->nlmsg_type = type;
    header()->nlmsg_flags = static_cast<uint16_t>(flags | NLM_F_REQUEST);
    mnl_nlmsg_put_extra_header(header(), sizeof(Body));
  }
  Body& body() { return *static_cast<Body*>(mnl_nlmsg_get_payload(header())); }
  // For mnl_attr_put() and its like.
  nlmsghdr* header() { return reinterpret_cast<nlmsghdr*>(bytes_.data()); }

 private:
  alignas(nlmsghdr) std::array<char, 512> bytes_{};
};

class NetlinkSocket {
 public:
  using Visit = std::function<void(const nlmsghdr&)>;

  // `bus`: NETLINK_ROUTE or another; `groups`: whose news come here (RTMGRP_...). Not open afterwards: errno.
  explicit NetlinkSocket(int bus, uint32_t groups = 0);
  explicit operator bool() const { return socket_ != nullptr; }
  int fd() const { return mnl_socket_get_fd(socket_.get()); }

  // Sends a request and hands each message of the answer to `visit`. 0, or the errno of the kernel's refusal;
  // EAGAIN: no answer within a second.
  template <class Body>
  int Ask(NetlinkRequest<Body>& request, const Visit& visit = {}) {
    return Ask(request.header(), visit);
  }
  // Hands on what has come unasked, without waiting, and not for ever where more keeps coming: then fd()
  // stays readable. False: some of it was lost.
  bool Drain(const Visit& visit);

 private:
  struct Closer {
    void operator()(mnl_socket* socket) const { mnl_socket_close(socket); }
  };
  int Ask(nlmsghdr* request, const Visit& visit);

  std::unique_ptr<mnl_socket, Closer> socket_;
  uint32_t sequence_ = 0;
};

// The attributes behind a message's body of `body_bytes`.
void ForEachAttribute(const nlmsghdr& message, size_t body_bytes,
                      const std::function<void(const nlattr&)>& visit);
void ForEachNested(const nlattr& outer, const std::function<void(const nlattr&)>& visit);

// nullopt: of another size.
template <class T>
std::optional<T> ValueOf(const nlattr& attribute) {
  T value;
  if (mnl_attr_get_payload_len(&attribute) != sizeof(value)) return std::nullopt;
  std::memcpy(&value, mnl_attr_get_payload(&attribute), sizeof(value));
  return value;
}
// Up to its first NUL.
std::string TextOf(const nlattr& attribute);

}  // namespace spillway::base
