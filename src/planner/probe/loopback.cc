// SPDX-License-Identifier: Apache-2.0
#include "planner/probe/loopback.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/fd.h"

namespace spillway::planner {
namespace {

constexpr size_t kPass = 16'000'000;
// At most so much is under way: it must fit the socket's buffers, or the one thread would wait for itself.
constexpr size_t kChunk = 64 * 1024;

class Loopback : public Kernel {
 public:
  Loopback(base::Fd to, base::Fd from)
      : to_(std::move(to)), from_(std::move(from)), out_(kChunk), in_(kChunk) {}
  double Pass() override {
    bytes_ = 0;
    sound_ = true;
    for (size_t i = 0; bytes_ < kPass && sound_; i++) {
      out_[0] = out_[kChunk - 1] = static_cast<char>(i);
      sound_ = SendChunk() && ReadChunk() && in_[0] == out_[0] && in_[kChunk - 1] == out_[0];
      bytes_ += kChunk;
    }
    return static_cast<double>(bytes_) / 1e9;
  }
  bool Verify() const override { return sound_; }

 private:
  bool SendChunk() {
    for (size_t sent = 0; sent < kChunk;) {
      const ssize_t n = ::send(to_.get(), out_.data() + sent, kChunk - sent, MSG_NOSIGNAL);
      if (n <= 0 && errno != EINTR) return false;
      if (n > 0) sent += static_cast<size_t>(n);
    }
    return true;
  }
  bool ReadChunk() {
    for (size_t read = 0; read < kChunk;) {
      const ssize_t n = ::recv(from_.get(), in_.data() + read, kChunk - read, 0);
      if (n == 0 || (n < 0 && errno != EINTR)) return false;
      if (n > 0) read += static_cast<size_t>(n);
    }
    return true;
  }

  base::Fd to_, from_;
  std::vector<char> out_, in_;
  size_t bytes_ = 0;
  bool sound_ = true;
};

tl::unexpected<Error> Failed(const char* operation) {
  return Fail(ErrorCode::kSystem, fmt::format("{} on 127.0.0.1: {}", operation, std::strerror(errno)));
}

}  // namespace

Result<std::unique_ptr<Kernel>> MakeLoopback() {
  const base::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (listener.get() < 0) return Failed("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  if (::bind(listener.get(), any, length) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), any, &length) != 0)
    return Failed("listen");
  base::Fd to(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (to.get() < 0) return Failed("socket");
  // Room for a whole chunk on the way, before the connection's window is agreed.
  const int room = 4 * kChunk;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  ::setsockopt(to.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  if (::connect(to.get(), any, length) != 0) return Failed("connect");
  base::Fd from(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (from.get() < 0) return Failed("accept");
  return std::make_unique<Loopback>(std::move(to), std::move(from));
}

}  // namespace spillway::planner
