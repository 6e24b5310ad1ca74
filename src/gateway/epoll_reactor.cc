// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "base/fd.h"
#include "gateway/reactor.h"
#include "gateway/transport/shared_memory.h"

namespace spillway::gateway {
namespace {

constexpr int kReadsPerTurn = 16;  // of a stream; then others have a turn

class EpollReactor : public Reactor {
 public:
  explicit EpollReactor(base::Fd epoll) : epoll_(std::move(epoll)) {}

  bool Watch(int fd, uint64_t tag) override { return Control(EPOLL_CTL_ADD, fd, tag, EPOLLIN | EPOLLET); }
  void Unwatch(int fd, uint64_t) override { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

  bool Add(Stream& stream, int fd, uint64_t tag) override {
    if (!Control(EPOLL_CTL_ADD, fd, tag, EPOLLIN)) return false;
    streams_[tag] = {&stream, fd, EPOLLIN};
    return true;
  }

  void Update(uint64_t tag) override {
    if (const auto found = streams_.find(tag); found != streams_.end()) {
      Send(found->second);
      Arm(found->second, tag);
    }
  }

  void Remove(uint64_t tag) override {
    const auto found = streams_.find(tag);
    if (found == streams_.end()) return;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
    streams_.erase(found);
  }

  void Wait(int timeout_ms, Listener& listener) override {
    epoll_event events[64];
    const int count = epoll_wait(epoll_.get(), events, 64, timeout_ms);
    for (int i = 0; i < count; i++) {
      const uint64_t tag = events[i].data.u64;
      const auto found = streams_.find(tag);
      if (found == streams_.end()) {
        listener.Ready(tag);
        continue;
      }
      if ((events[i].events & EPOLLOUT) != 0) Send(found->second);
      if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Receive(found->second, events[i].events);
      Arm(found->second, tag);
      listener.Moved(tag);
    }
  }

  bool Wishes() const override { return false; }
  void End() override {}
  const char* name() const override { return "epoll"; }

 private:
  struct Watched {
    Stream* stream = nullptr;
    int fd = -1;
    uint32_t events = 0;
  };

  bool Control(int what, int fd, uint64_t tag, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag;
    return epoll_ctl(epoll_.get(), what, fd, &event) == 0;
  }

  void Arm(Watched& watched, uint64_t tag) {
    const uint32_t events = (watched.stream->NextRead().bytes.empty() ? 0U : EPOLLIN) |
                            (watched.stream->NextWrite().bytes.empty() ? 0U : EPOLLOUT);
    if (events == watched.events) return;
    watched.events = events;
    Control(EPOLL_CTL_MOD, watched.fd, tag, events);
  }

  static void Receive(Watched& watched, uint32_t events) {
    for (int i = 0; i < kReadsPerTurn; i++) {
      const Stream::Piece into = watched.stream->NextRead();
      if (into.bytes.empty()) {
        // Both directions are shut while nothing is read: nobody is there to answer.
        if ((events & (EPOLLHUP | EPOLLERR)) != 0) watched.stream->Got(0);
        return;
      }
      const ssize_t got = recv(watched.fd, into.bytes.data(), into.bytes.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      watched.stream->Got(got < 0 ? -errno : got);
      if (got <= 0) return;
      // Less than there was room for: the socket is empty.
      if (static_cast<size_t>(got) < into.bytes.size()) return;
    }
  }

  static void Send(Watched& watched) {
    for (;;) {
      const Stream::Piece from = watched.stream->NextWrite();
      if (from.bytes.empty()) return;
      const ssize_t sent =
          send(watched.fd, from.bytes.data(), from.bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) return;
      watched.stream->Sent(sent < 0 ? -errno : sent);
    }
  }

  base::Fd epoll_;
  std::unordered_map<uint64_t, Watched> streams_;
};

}  // namespace

Result<std::unique_ptr<Reactor>> MakeEpollReactor() {
  base::Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return Fail(ErrorCode::kSystem, fmt::format("epoll_create1: {}", std::strerror(errno)));
  return std::make_unique<EpollReactor>(std::move(epoll));
}

Result<std::unique_ptr<Reactor>> MakeReactor(Io io) {
  if (io == Io::kUring) {
    auto uring = MakeUringReactor();
    if (uring) return uring;
    spdlog::warn("{}; clients are served by epoll", uring.error().message);
  }
  return MakeEpollReactor();
}

}  // namespace spillway::gateway
