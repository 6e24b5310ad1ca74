// SPDX-License-Identifier: Apache-2.0
#include "base/netlink.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace spillway::base {
namespace {

constexpr int kMaxDatagrams = 64;  // of news, at once
constexpr size_t kBuffer = 32768;  // of a dump's messages the kernel sends at most this many bytes at once

void ForEach(const void* first, const void* end, const std::function<void(const nlattr&)>& visit) {
  const auto left = [end](const nlattr* at) {
    return static_cast<int>(static_cast<const char*>(end) - reinterpret_cast<const char*>(at));
  };
  for (auto* at = static_cast<const nlattr*>(first); mnl_attr_ok(at, left(at)); at = mnl_attr_next(at))
    visit(*at);
}

}  // namespace

NetlinkSocket::NetlinkSocket(int bus, uint32_t groups) : socket_(mnl_socket_open2(bus, SOCK_CLOEXEC)) {
  if (!socket_) return;
  if (mnl_socket_bind(socket_.get(), groups, MNL_SOCKET_AUTOPID) != 0) {
    const int why = errno;
    socket_.reset();
    errno = why;
    return;
  }
  const timeval patience{1, 0};
  setsockopt(fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

int NetlinkSocket::Ask(nlmsghdr* request, const Visit& visit) {
  request->nlmsg_seq = ++sequence_;
  if (mnl_socket_sendto(socket_.get(), request, request->nlmsg_len) < 0) return errno;
  alignas(nlmsghdr) std::array<char, kBuffer> answer;
  while (true) {
    const ssize_t got = mnl_socket_recvfrom(socket_.get(), answer.data(), answer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    int left = static_cast<int>(got);
    for (auto* m = reinterpret_cast<const nlmsghdr*>(answer.data()); mnl_nlmsg_ok(m, left);
         m = mnl_nlmsg_next(m, &left)) {
      if (m->nlmsg_seq != sequence_) continue;  // of a question that was given up
      // Both begin with an error number, or 0.
      if (m->nlmsg_type == NLMSG_DONE || m->nlmsg_type == NLMSG_ERROR) {
        int error = 0;
        std::memcpy(&error, mnl_nlmsg_get_payload(m), std::min(sizeof(error), mnl_nlmsg_get_payload_len(m)));
        return -error;
      }
      if (visit) visit(*m);
      if ((m->nlmsg_flags & NLM_F_MULTI) == 0) return 0;
    }
  }
}

bool NetlinkSocket::Drain(const Visit& visit) {
  alignas(nlmsghdr) std::array<char, kBuffer> news;
  bool whole = true;
  for (int i = 0; i < kMaxDatagrams; i++) {
    const ssize_t got = recv(fd(), news.data(), news.size(), MSG_DONTWAIT | MSG_TRUNC);  // their real length
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != ENOBUFS) return whole;
    if (got < 0 || got > static_cast<ssize_t>(news.size())) whole = false;
    int left = static_cast<int>(std::min(got, static_cast<ssize_t>(news.size())));
    for (auto* m = reinterpret_cast<const nlmsghdr*>(news.data()); mnl_nlmsg_ok(m, left);
         m = mnl_nlmsg_next(m, &left))
      visit(*m);
  }
  return whole;
}

void ForEachAttribute(const nlmsghdr& message, size_t body_bytes,
                      const std::function<void(const nlattr&)>& visit) {
  ForEach(mnl_nlmsg_get_payload_offset(&message, body_bytes), mnl_nlmsg_get_payload_tail(&message), visit);
}

void ForEachNested(const nlattr& outer, const std::function<void(const nlattr&)>& visit) {
  const auto* first = static_cast<const char*>(mnl_attr_get_payload(&outer));
  ForEach(first, first + mnl_attr_get_payload_len(&outer), visit);
}

std::string TextOf(const nlattr& attribute) {
  const auto* text = static_cast<const char*>(mnl_attr_get_payload(&attribute));
  return {text, strnlen(text, mnl_attr_get_payload_len(&attribute))};
}

}  // namespace spillway::base
