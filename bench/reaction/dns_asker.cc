// SPDX-License-Identifier: Apache-2.0
// Questions over UDP, DNS; whoever answers is known by the address.
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "bench/reaction/asker.h"
#include "health/probe_kinds.h"

namespace spillway::bench {
namespace {

// "h1.example.org A", without its id.
constexpr char kQuery[] =
    "\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02h1\x07"
    "example\x03org\x00\x00\x01\x00\x01";
constexpr ssize_t kHeaderBytes = 12;

class DnsAsker : public Asker {
 public:
  DnsAsker(const model::Address& to, uint16_t port) : to_(to, port) {
    memcpy(query_ + 2, kQuery, sizeof(kQuery) - 1);
  }
  ~DnsAsker() override {
    if (fd_ >= 0) close(fd_);
  }

  Result<void> Open() override {
    // Not connected: a refused query must not fail the next one.
    fd_ = socket(to_.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ < 0) return Fail(ErrorCode::kSystem, fmt::format("socket: {}", strerror(errno)));
    return {};
  }
  int fd() const override { return fd_; }

  void Ask(size_t question) override {
    query_[0] = static_cast<uint8_t>(question >> 8);
    query_[1] = static_cast<uint8_t>(question);
    (void)sendto(fd_, query_, sizeof(query_), 0, to_.get(), to_.length);
  }

  void Read(const OnAnswer& on_answer) override {
    uint8_t answer[2048];
    for (ssize_t bytes; (bytes = recv(fd_, answer, sizeof(answer), 0)) > 0;)
      if (bytes >= kHeaderBytes)
        on_answer(static_cast<size_t>(answer[0] << 8 | answer[1]), (answer[3] & 0x0f) == 0);
  }
  void GiveUp(size_t) override {}

 private:
  const health::SocketAddress to_;
  uint8_t query_[1 + sizeof(kQuery)];  // two bytes of id for the terminating one
  int fd_ = -1;
};

}  // namespace

std::unique_ptr<Asker> MakeDnsAsker(const model::Address& to, uint16_t port) {
  return std::make_unique<DnsAsker>(to, port);
}

}  // namespace spillway::bench
