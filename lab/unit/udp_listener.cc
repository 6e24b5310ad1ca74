// SPDX-License-Identifier: Apache-2.0
#include "udp_listener.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "clock.h"

namespace spillway::unit {

namespace {

constexpr std::size_t kBatch = 32;
constexpr std::size_t kDatagramBytes = 65536;
constexpr int kBufferBytes = 8 << 20;  // bursts that pile up while this program waits for a CPU

// One batch's worth of buffers, shared by all sockets of the thread.
struct Batch {
  std::array<mmsghdr, kBatch> headers{};
  std::array<iovec, kBatch> pieces{};
  std::array<sockaddr_storage, kBatch> peers{};
  std::array<std::array<char, kControlBytes>, kBatch> control{};
  std::array<std::array<char, kDatagramBytes>, kBatch> bytes;

  void Prepare() {
    for (std::size_t i = 0; i < kBatch; ++i) {
      pieces[i] = {bytes[i].data(), bytes[i].size()};
      msghdr& header = headers[i].msg_hdr;
      header = {};
      header.msg_name = &peers[i];
      header.msg_namelen = sizeof peers[i];
      header.msg_iov = &pieces[i];
      header.msg_iovlen = 1;
      header.msg_control = control[i].data();
      header.msg_controllen = control[i].size();
    }
  }
};

void ReadLocalAddress(msghdr& message, ReturnPath& path) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
      in_pktinfo info{};
      std::memcpy(&info, CMSG_DATA(c), sizeof info);
      path.local4.ipi_spec_dst = info.ipi_addr;
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
      std::memcpy(&path.local6, CMSG_DATA(c), sizeof path.local6);
      path.local6.ipi6_ifindex = 0;  // let routing choose the way out
    }
  }
}

}  // namespace

Result<UdpListener> UdpListener::Open(const base::SocketAddress& address) {
  const int fd = ::socket(address.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  bool ok = fd >= 0;
  if (ok && address.family() == AF_INET6)
    ok = ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0;
  if (ok && address.IsWildcard()) {
    ok = address.family() == AF_INET ? ::setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on) == 0
                                     : ::setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on) == 0;
  }
  ok = ok && ::bind(fd, address.get(), address.length) == 0;
  if (!ok) {
    const int error = errno;
    if (fd >= 0) ::close(fd);
    return Fail(error == EADDRINUSE ? ErrorCode::kConflict : ErrorCode::kSystem,
                fmt::format("udp {}: {}", address.Text(), std::strerror(error)));
  }
  // Root may pass the system's limit, others get what it allows.
  if (::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &kBufferBytes, sizeof kBufferBytes) != 0)
    (void)::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kBufferBytes, sizeof kBufferBytes);
  EnableReceiveStamps(fd);
  return UdpListener(fd, address.IsWildcard());
}

UdpListener::UdpListener(UdpListener&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), any_(other.any_) {}

UdpListener::~UdpListener() {
  if (fd_ >= 0) ::close(fd_);
}

void UdpListener::Receive(Statistics& statistics, const OnRequest& on_request) {
  static thread_local const std::unique_ptr<Batch> batch = std::make_unique<Batch>();
  batch->Prepare();
  const int count = ::recvmmsg(fd_, batch->headers.data(), kBatch, MSG_DONTWAIT, nullptr);
  const std::int64_t now = MonotonicNs(), offset = RealtimeOffsetNs();
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    msghdr& header = batch->headers[at].msg_hdr;
    const std::string_view datagram(batch->bytes[at].data(), batch->headers[at].msg_len);
    std::optional<Request> request;
    if (datagram.size() >= kRequestBytes) request = DecodeRequest(datagram.data());
    if (!request || request->payload_bytes != datagram.size() - kRequestBytes ||
        request->payload_bytes > kMaxUdpPayloadBytes) {
      ++statistics.malformed;
      continue;
    }
    ReturnPath path;
    path.udp_fd = fd_;
    path.peer.storage = batch->peers[at];
    path.peer.length = header.msg_namelen;
    if (any_) ReadLocalAddress(header, path);
    on_request(*request, datagram.substr(kRequestBytes), ReceiveTimeNs(header, offset, now), path);
  }
}

bool UdpListener::Send(const Job& job) {
  iovec piece{const_cast<char*>(job.bytes.data()), job.bytes.size()};
  msghdr message{};
  message.msg_name = const_cast<sockaddr*>(job.path.peer.get());
  message.msg_namelen = job.path.peer.length;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[kControlBytes] = {};
  if (any_) {
    const bool v4 = job.path.peer.family() == AF_INET;
    const std::size_t size = v4 ? sizeof(in_pktinfo) : sizeof(in6_pktinfo);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
    c->cmsg_type = v4 ? IP_PKTINFO : IPV6_PKTINFO;
    c->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(c),
                v4 ? static_cast<const void*>(&job.path.local4) : static_cast<const void*>(&job.path.local6),
                size);
  }
  return ::sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

}  // namespace spillway::unit
