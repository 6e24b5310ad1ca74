// SPDX-License-Identifier: Apache-2.0
// Questions over TCP, HTTP; whoever answers is known by what it says at /unit.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

#include "bench/reaction/asker.h"
#include "health/probe_kinds.h"

namespace spillway::bench {
namespace {

constexpr std::string_view kRequest = "GET /unit HTTP/1.1\r\nHost: unit\r\nConnection: close\r\n\r\n";
constexpr std::string_view kVersion = "HTTP/1.1 ";
constexpr size_t kStatusLineBytes = kVersion.size() + 3;

// Each connection has the next port, over all askers: a switch sends a repeated SYN where it sent the first
// for 64 s, and ports chosen by the kernel repeat within seconds, as those of many clients do not.
constexpr uint32_t kFirstPort = 1025, kPorts = 65'536 - kFirstPort;
std::atomic<uint32_t> g_connections{0};

class HttpAsker : public Asker {
 public:
  HttpAsker(const model::Address& to, uint16_t port) : to_(to, port) { any_.family = to.family; }
  ~HttpAsker() override {
    for (const auto& [question, connection] : connections_) close(connection.fd);
    if (epoll_ >= 0) close(epoll_);
  }

  Result<void> Open() override {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) return Fail(ErrorCode::kSystem, fmt::format("epoll_create1: {}", strerror(errno)));
    return {};
  }
  int fd() const override { return epoll_; }

  void Ask(size_t question) override {
    const int fd = socket(to_.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return;
    // Closed by a reset, a connection leaves no TIME_WAIT behind on either side: ports would run out.
    const linger reset{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    Bind(fd);
    epoll_event event{};
    event.events = EPOLLOUT;
    event.data.u64 = question;
    if ((connect(fd, to_.get(), to_.length) != 0 && errno != EINPROGRESS) ||
        epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
      close(fd);
      return;
    }
    connections_[question].fd = fd;
  }

  void Read(const OnAnswer& on_answer) override {
    std::array<epoll_event, 64> events;
    const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < ready; i++) {
      const auto found = connections_.find(events[static_cast<size_t>(i)].data.u64);
      if (found == connections_.end()) continue;
      if (!found->second.asked) {
        if (!SendRequest(found->first, found->second)) Drop(found);
      } else if (ReadSome(found->second)) {
        const std::string& head = found->second.head;
        if (head.size() == kStatusLineBytes && head.starts_with(kVersion))
          on_answer(found->first, head.ends_with("200"));
        Drop(found);
      }
    }
  }

  void GiveUp(size_t question) override {
    if (const auto found = connections_.find(question); found != connections_.end()) Drop(found);
  }

 private:
  struct Connection {
    int fd = -1;
    bool asked = false;
    std::string head;  // of the answer: version and status
  };
  using Connections = std::unordered_map<size_t, Connection>;

  // To the next port that is free; to one of the kernel's choice if a few are not.
  void Bind(int fd) const {
    for (int tries = 0; tries < 4; tries++) {
      const health::SocketAddress own(any_, static_cast<uint16_t>(kFirstPort + g_connections++ % kPorts));
      if (bind(fd, own.get(), own.length) == 0) return;
    }
  }
  void Drop(Connections::iterator connection) {
    close(connection->second.fd);
    connections_.erase(connection);
  }

  bool SendRequest(size_t question, Connection& connection) {
    // So few bytes fit into a fresh connection's buffer.
    if (send(connection.fd, kRequest.data(), kRequest.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(kRequest.size()))
      return false;
    connection.asked = true;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = question;
    return epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event) == 0;
  }

  // True: the connection has ended. After a reset what came before it is no answer.
  static bool ReadSome(Connection& connection) {
    char buffer[4096];
    for (;;) {
      const ssize_t bytes = recv(connection.fd, buffer, sizeof(buffer), 0);
      if (bytes == 0) return true;
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes < 0 && errno == EAGAIN) return false;
      if (bytes < 0) {
        connection.head.clear();
        return true;
      }
      connection.head.append(buffer,
                             std::min(static_cast<size_t>(bytes), kStatusLineBytes - connection.head.size()));
    }
  }

  const health::SocketAddress to_;
  model::Address any_;  // of to_'s family
  int epoll_ = -1;
  Connections connections_;  // by question
};

}  // namespace

std::unique_ptr<Asker> MakeHttpAsker(const model::Address& to, uint16_t port) {
  return std::make_unique<HttpAsker>(to, port);
}

}  // namespace spillway::bench
