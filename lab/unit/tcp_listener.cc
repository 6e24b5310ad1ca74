// SPDX-License-Identifier: Apache-2.0
#include "tcp_listener.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "clock.h"

namespace spillway::unit {

namespace {

constexpr std::uint64_t kMaxListeners = 1024;
constexpr std::size_t kReadBytes = 256 << 10;
constexpr std::size_t kSentAtMost = 1 << 20;         // kept of answers that have left
constexpr std::size_t kUnfinishedAtMost = 64 << 20;  // of requests that have not come whole, of all clients

}  // namespace

TcpListener::TcpListener(int epoll_fd)
    : epoll_fd_(epoll_fd),
      spare_fd_(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
      next_key_(kFirstKey + kMaxListeners) {}

TcpListener::~TcpListener() {
  for (auto& [key, connection] : connections_) ::close(connection.fd);
  for (int fd : listeners_) ::close(fd);
  ::close(spare_fd_);
}

Result<base::SocketAddress> TcpListener::Listen(const base::SocketAddress& address) {
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  bool ok = fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0;
  if (ok && address.family() == AF_INET6)
    ok = ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0;
  ok = ok && ::bind(fd, address.get(), address.length) == 0 && ::listen(fd, SOMAXCONN) == 0;
  epoll_event event{EPOLLIN, {.u64 = kFirstKey + listeners_.size()}};
  ok = ok && ::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
  if (!ok) {
    const int error = errno;
    if (fd >= 0) ::close(fd);
    return Fail(error == EADDRINUSE ? ErrorCode::kConflict : ErrorCode::kSystem,
                fmt::format("tcp {}: {}", address.Text(), std::strerror(error)));
  }
  listeners_.push_back(fd);
  return base::SocketAddress::OfSocket(fd);
}

void TcpListener::OnEvent(std::uint64_t key, std::uint32_t events, Statistics& statistics,
                          const OnRequest& on_request) {
  if (key < kFirstKey + kMaxListeners) {
    Accept(listeners_[key - kFirstKey], statistics);
    return;
  }
  const auto found = connections_.find(key);
  if (found == connections_.end()) return;  // closed earlier in the same batch of events
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
    Close(key);
    return;
  }
  // Flush closes a connection whose last answer has left.
  if ((events & EPOLLOUT) != 0 && (!Flush(key, found->second) || connections_.count(key) == 0)) return;
  if ((events & EPOLLIN) != 0) Read(key, found->second, statistics, on_request);
}

void TcpListener::Accept(int listener, Statistics& statistics) {
  for (;;) {
    int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
      // Left in the backlog it would keep the listener readable for ever: take it and hang up.
      ::close(spare_fd_);
      fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) ::close(fd);
      spare_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      return;
    }
    if (fd < 0) return;
    const int on = 1;
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    EnableReceiveStamps(fd);
    const std::uint64_t key = next_key_++;
    epoll_event event{EPOLLIN, {.u64 = key}};
    if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
      ::close(fd);
      continue;
    }
    Connection& connection = connections_[key];
    connection.fd = fd;
    connection.watched = EPOLLIN;
    ++statistics.connections;
  }
}

void TcpListener::Read(std::uint64_t key, Connection& connection, Statistics& statistics,
                       const OnRequest& on_request) {
  static thread_local std::vector<char> buffer(kReadBytes);
  iovec piece{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[kControlBytes];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(connection.fd, &message, MSG_DONTWAIT);
  if (n < 0) {
    if (errno != EAGAIN && errno != EINTR) Close(key);
    return;
  }
  if (n == 0) {
    connection.ended = true;
    if (connection.held == 0) {
      Close(key);
    } else {
      Watch(key, connection);
    }
    return;
  }
  const std::int64_t arrived = ReceiveTimeNs(message, RealtimeOffsetNs(), MonotonicNs());
  connection.in.append(buffer.data(), static_cast<std::size_t>(n));
  std::size_t at = 0;
  while (connection.in.size() - at >= kRequestBytes) {
    const std::optional<Request> request = DecodeRequest(connection.in.data() + at);
    if (!request) {
      ++statistics.malformed;
      Close(key);
      return;
    }
    if (connection.in.size() - at < kRequestBytes + request->payload_bytes) break;
    ReturnPath path;
    path.connection = key;
    const std::uint64_t dropped = statistics.dropped;
    on_request(*request, std::string_view(connection.in).substr(at + kRequestBytes, request->payload_bytes),
               arrived, path);
    if (statistics.dropped == dropped) connection.held += kAnswerBytes + request->payload_bytes;
    at += kRequestBytes + request->payload_bytes;
  }
  connection.in.erase(0, at);
  unfinished_ += connection.in.size() - std::exchange(connection.unfinished, connection.in.size());
  if (unfinished_ > kUnfinishedAtMost && !connection.in.empty()) {
    ++statistics.dropped;
    Close(key);
    return;
  }
  Watch(key, connection);
}

bool TcpListener::Send(Job job) {
  const auto found = connections_.find(job.path.connection);
  if (found == connections_.end()) return false;
  Connection& connection = found->second;
  if (connection.out.empty()) {
    connection.out = std::move(job.bytes);
  } else {
    connection.out += job.bytes;
  }
  return Flush(job.path.connection, connection);
}

bool TcpListener::Flush(std::uint64_t key, Connection& connection) {
  while (connection.out_done < connection.out.size()) {
    const ssize_t n = ::send(connection.fd, connection.out.data() + connection.out_done,
                             connection.out.size() - connection.out_done, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EAGAIN || errno == EINTR) break;
      Close(key);
      return false;
    }
    connection.out_done += static_cast<std::size_t>(n);
    connection.held -= static_cast<std::size_t>(n);
  }
  // A client that reads slower than it asks never empties it.
  if (connection.out_done >= kSentAtMost && connection.out_done < connection.out.size()) {
    connection.out.erase(0, connection.out_done);
    connection.out_done = 0;
  }
  if (connection.out_done == connection.out.size()) {
    connection.out.clear();
    connection.out_done = 0;
    if (connection.ended && connection.held == 0) {
      Close(key);
      return true;
    }
  }
  Watch(key, connection);
  return true;
}

void TcpListener::Watch(std::uint64_t key, Connection& connection) {
  const bool read = !connection.ended && connection.held < kHeldLimit;
  const std::uint32_t wanted = (read ? EPOLLIN : 0u) | (connection.out.empty() ? 0u : EPOLLOUT);
  if (wanted == connection.watched) return;
  connection.watched = wanted;
  epoll_event event{wanted, {.u64 = key}};
  (void)::epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, connection.fd, &event);
}

void TcpListener::Close(std::uint64_t key) {
  const auto found = connections_.find(key);
  ::close(found->second.fd);
  unfinished_ -= found->second.unfinished;
  connections_.erase(found);
}

}  // namespace spillway::unit
