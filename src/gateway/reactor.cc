// SPDX-License-Identifier: Apache-2.0
#include "gateway/reactor.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace spillway::gateway {
namespace {

// Of a stream; then others have a turn. A small read is of frames' heads, of which each may ask for
// something.
constexpr int kReadsPerTurn = 16, kSmallReadsPerTurn = 4;
constexpr size_t kSmallRead = 4096;

void Receive(Stream& stream, int fd, uint32_t events) {
  for (int i = 0, small = 0; i < kReadsPerTurn && small < kSmallReadsPerTurn; i++) {
    const auto into = stream.NextRead();
    small += into.size() <= kSmallRead ? 1 : 0;
    if (into.empty()) {
      // Both directions are shut while nothing is read: nobody is there to answer.
      if ((events & (EPOLLHUP | EPOLLERR)) != 0) stream.Got(0);
      return;
    }
    const ssize_t got = recv(fd, into.data(), into.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    stream.Got(got < 0 ? -errno : got);
    if (got <= 0) return;
    // Less than there was room for: the socket is empty.
    if (static_cast<size_t>(got) < into.size()) return;
  }
}

void Send(Stream& stream, int fd) {
  for (;;) {
    const auto from = stream.NextWrite();
    if (from.empty()) return;
    const ssize_t sent = send(fd, from.data(), from.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    stream.Sent(sent < 0 ? -errno : sent);
  }
}

}  // namespace

Result<std::unique_ptr<Reactor>> Reactor::Create() {
  base::Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return Fail(ErrorCode::kSystem, fmt::format("epoll_create1: {}", std::strerror(errno)));
  return std::unique_ptr<Reactor>(new Reactor(std::move(epoll)));
}

bool Reactor::Watch(int fd, uint64_t tag) { return Control(EPOLL_CTL_ADD, fd, tag, EPOLLIN | EPOLLET); }

void Reactor::Unwatch(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

bool Reactor::Add(Stream& stream, int fd, uint64_t tag) {
  if (!Control(EPOLL_CTL_ADD, fd, tag, EPOLLIN)) return false;
  streams_[tag] = {&stream, fd, EPOLLIN};
  return true;
}

void Reactor::Update(uint64_t tag) {
  if (const auto found = streams_.find(tag); found != streams_.end()) {
    Send(*found->second.stream, found->second.fd);
    Arm(found->second, tag);
  }
}

void Reactor::Remove(uint64_t tag) {
  const auto found = streams_.find(tag);
  if (found == streams_.end()) return;
  Unwatch(found->second.fd);
  streams_.erase(found);
}

void Reactor::Wait(std::chrono::nanoseconds most, Listener& listener) {
  constexpr int kMost = 64;
  epoll_event events[kMost];
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
  const timespec timeout{seconds.count(), (most - seconds).count()};
  int count = epoll_pwait2(epoll_.get(), events, kMost, &timeout, nullptr);
  if (count < 0 && errno == ENOSYS) {  // before Linux 5.11
    using namespace std::chrono_literals;
    count = epoll_wait(epoll_.get(), events, kMost, static_cast<int>((most + 999'999ns) / 1ms));
  }
  for (int i = 0; i < count; i++) {
    const uint64_t tag = events[i].data.u64;
    const auto found = streams_.find(tag);
    if (found == streams_.end()) {
      listener.Ready(tag);
      continue;
    }
    Watched& watched = found->second;
    if ((events[i].events & EPOLLOUT) != 0) Send(*watched.stream, watched.fd);
    if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
      Receive(*watched.stream, watched.fd, events[i].events);
    Arm(watched, tag);
    listener.Moved(tag);
  }
}

bool Reactor::Control(int what, int fd, uint64_t tag, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  return epoll_ctl(epoll_.get(), what, fd, &event) == 0;
}

void Reactor::Arm(Watched& watched, uint64_t tag) {
  const uint32_t events = (watched.stream->NextRead().empty() ? 0U : EPOLLIN) |
                          (watched.stream->NextWrite().empty() ? 0U : EPOLLOUT);
  if (events == watched.events) return;
  watched.events = events;
  Control(EPOLL_CTL_MOD, watched.fd, tag, events);
}

}  // namespace spillway::gateway
