// SPDX-License-Identifier: Apache-2.0
// A unit whose answers have no end.
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <csignal>
#include <string>
#include <thread>

#include "checker_fixture.h"

namespace spillway::health {
namespace {

// Each answer is whole but for its trailers, which come for as long as the client takes them.
class TrailerServer {
 public:
  TrailerServer() {
    socket_.Listen();
    thread_ = std::thread([this] { Serve(); });
  }
  ~TrailerServer() {
    stop_ = true;
    shutdown(socket_.fd(), SHUT_RDWR);
    thread_.join();
  }
  uint16_t port() const { return socket_.port(); }

 private:
  void Serve() {
    std::string trailers;
    while (trailers.size() < 16 << 10) trailers += "A: b\r\n";
    while (!stop_) {
      const int fd = accept(socket_.fd(), nullptr, nullptr);
      if (fd < 0) continue;
      const timeval patience{1, 0};
      setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
      const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
      bool goes_on = send(fd, head.data(), head.size(), MSG_NOSIGNAL) > 0;
      while (goes_on && !stop_) goes_on = send(fd, trailers.data(), trailers.size(), MSG_NOSIGNAL) > 0;
      close(fd);
    }
  }

  Socket socket_{SOCK_STREAM};
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

using WebFlood = CheckerTest;

TEST_F(WebFlood, TrailersWithoutEndFailTheUnit) {
  TrailerServer flooding;
  auto http = QuickCheck(model::CheckKind::kHttp, flooding.port());
  http.timeout_ms = 20'000;
  Check({http});
  EXPECT_TRUE(Eventually([&] { return View(0).state == CheckState::kFailing; }));
  EXPECT_THAT(View(0).reason, ::testing::HasSubstr("more than 64 KiB of headers and trailers"));
}

}  // namespace
}  // namespace spillway::health
