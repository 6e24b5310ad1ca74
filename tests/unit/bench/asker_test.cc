// SPDX-License-Identifier: Apache-2.0
// What the benchmark of reactions takes for an answer and for an error, from real sockets.
#include "bench/reaction/asker.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <string>

namespace spillway::bench {
namespace {

// A socket of 127.0.0.1 at a port of its own.
class Peer {
 public:
  explicit Peer(int type) : fd_(socket(AF_INET, type | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(at);
    const bool bound = bind(fd_, reinterpret_cast<sockaddr*>(&at), length) == 0 &&
                       (type != SOCK_STREAM || listen(fd_, 16) == 0) &&
                       getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &length) == 0;
    if (bound) port_ = ntohs(at.sin_port);
  }
  ~Peer() { Close(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int fd() const { return fd_; }
  uint16_t port() const { return port_; }

 private:
  int fd_;
  uint16_t port_ = 0;
};

const model::Address kLoopback = *model::Address::Parse("127.0.0.1");

// What has come by the time that `count` answers have, or nothing more happens.
std::map<size_t, bool> ReadAnswers(Asker& asker, size_t count) {
  std::map<size_t, bool> answers;
  pollfd readable{asker.fd(), POLLIN, 0};
  while (answers.size() < count && poll(&readable, 1, 5000) > 0)
    asker.Read([&](size_t question, bool good) { answers[question] = good; });
  return answers;
}

TEST(DnsAsker, AnRcodeOtherThanNoErrorIsAnError) {
  const Peer server(SOCK_DGRAM);
  const auto asker = MakeDnsAsker(kLoopback, server.port());
  ASSERT_TRUE(asker->Open());
  for (const size_t question : {7, 258, 65'535}) asker->Ask(question);
  for (int i = 0; i < 3; i++) {
    uint8_t message[512];
    sockaddr_in from{};
    socklen_t length = sizeof(from);
    const ssize_t bytes =
        recvfrom(server.fd(), message, sizeof(message), 0, reinterpret_cast<sockaddr*>(&from), &length);
    ASSERT_GT(bytes, 12);
    message[2] |= 0x80;              // an answer
    if (i == 1) message[3] |= 5;     // REFUSED
    if (i == 2) message[3] |= 0x80;  // recursion is available: no error
    ASSERT_EQ(sendto(server.fd(), message, static_cast<size_t>(bytes), 0, reinterpret_cast<sockaddr*>(&from),
                     length),
              bytes);
  }
  EXPECT_EQ(ReadAnswers(*asker, 3), (std::map<size_t, bool>{{7, true}, {258, false}, {65'535, true}}));
}

class HttpAskerTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(asker_->Open()); }

  // A connection whose request has come.
  int AcceptRequest() {
    // The request goes out once the asker has seen that it is connected.
    const int fd = accept(server_.fd(), nullptr, nullptr);
    std::string request;
    while (!request.ends_with("\r\n\r\n")) {
      asker_->Read([](size_t, bool) {});
      char byte = 0;
      if (recv(fd, &byte, 1, MSG_DONTWAIT) == 1) request.push_back(byte);
    }
    EXPECT_TRUE(request.starts_with("GET /unit HTTP/1.1\r\n")) << request;
    return fd;
  }
  static void Send(int fd, const std::string& text) {
    EXPECT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // Until nothing more happens: what the peer does on loopback has happened when its call returns.
  size_t CountAnswers() {
    size_t answers = 0;
    pollfd readable{asker_->fd(), POLLIN, 0};
    while (poll(&readable, 1, 0) > 0) asker_->Read([&](size_t, bool) { answers++; });
    return answers;
  }

  Peer server_{SOCK_STREAM};
  const std::unique_ptr<Asker> asker_ = MakeHttpAsker(kLoopback, server_.port());
};

TEST_F(HttpAskerTest, AStatusOtherThan200IsAnError) {
  asker_->Ask(1);
  const int good = AcceptRequest();
  asker_->Ask(2);
  const int bad = AcceptRequest();
  Send(good, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n");
  close(good);
  Send(bad, "HTTP/1.1 503 Service Temporarily Unavailable\r\n\r\n200");
  close(bad);
  EXPECT_EQ(ReadAnswers(*asker_, 2), (std::map<size_t, bool>{{1, true}, {2, false}}));
}

TEST_F(HttpAskerTest, AConnectionThatIsClosedWithoutAStatusHasNoAnswer) {
  asker_->Ask(1);
  close(AcceptRequest());
  EXPECT_EQ(CountAnswers(), 0u);
}

TEST_F(HttpAskerTest, AResetTakesTheAnswerBack) {
  asker_->Ask(1);
  const int fd = AcceptRequest();
  Send(fd, "HTTP/1.1 200 OK\r\n");
  const linger reset{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  close(fd);
  EXPECT_EQ(CountAnswers(), 0u);
}

TEST_F(HttpAskerTest, ARefusedConnectionHasNoAnswer) {
  server_.Close();
  asker_->Ask(1);
  EXPECT_EQ(CountAnswers(), 0u);
}

TEST_F(HttpAskerTest, WhatIsGivenUpIsClosed) {
  asker_->Ask(1);
  const int fd = AcceptRequest();
  asker_->GiveUp(1);
  char byte = 0;
  EXPECT_LE(recv(fd, &byte, 1, 0), 0);  // blocks for ever if it is not
  close(fd);
}

}  // namespace
}  // namespace spillway::bench
