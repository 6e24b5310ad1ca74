// SPDX-License-Identifier: Apache-2.0
// Who may not ask: told before the body, and cut for those who may.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>

#include "http_bed.h"

namespace spillway::api {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(Http, WhoMayNotAskIsToldBeforeTheBody) {
  auto listener = ListenUnix(socket_);
  ASSERT_TRUE(listener);
  file_ = std::move(listener->file);
  HttpLimits limits;
  uint64_t told = 0;
  limits.admit = [&](const Request& head, uint64_t announced) {
    told = announced;
    return head.headers.contains("token") ? std::nullopt
                                          : std::optional(Response{.status = 401, .body = "no"});
  };
  server_ = std::move(*HttpServer::StartAsync(
      listener->fd,
      [](Request request, Responder respond) {
        respond([request] { return Response{.body = request.body}; });
      },
      limits));
  const std::string head = "POST /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n";
  EXPECT_THAT(Raw(head + "Expect: 100-continue\r\n\r\n"), StartsWith("HTTP/1.1 401"));
  EXPECT_EQ(told, 5u);
  EXPECT_THAT(Raw(head + "Token: t\r\n\r\nhello"), HasSubstr("hello"));
}

// A server that closes with a body unread resets the connection, and its answer may never be seen.
TEST_F(Http, WhoIsRefusedCanSendTheBodyAndThenReadWhy) {
  auto listener = ListenUnix(socket_);
  ASSERT_TRUE(listener);
  file_ = std::move(listener->file);
  HttpLimits limits;
  limits.body = 1000;
  limits.admit = [](const Request& head, uint64_t) {
    return head.headers.contains("token") ? std::nullopt
                                          : std::optional(Response{.status = 401, .body = "no"});
  };
  std::atomic<int> handled = 0;
  server_ = std::move(*HttpServer::StartAsync(
      listener->fd,
      [&](Request, Responder respond) {
        handled++;
        respond([] { return Response{.body = "done"}; });
      },
      limits));
  const std::string body(900'000, 'x');
  const std::string announced = "Content-Length: 900000\r\n\r\n";
  for (const auto& [token, status] : {std::pair("", "HTTP/1.1 401"), {"Token: t\r\n", "HTTP/1.1 413"}}) {
    const std::string head = std::string("POST /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n") + token;
    // Nothing but a server that reads on lets this send all of its body.
    const int fd = Send(head + announced);
    for (size_t sent = 0; sent < body.size();) {
      const ssize_t count = send(fd, body.data() + sent, body.size() - sent, MSG_NOSIGNAL);
      ASSERT_GT(count, 0) << "cut after " << sent << " bytes: " << std::strerror(errno);
      sent += static_cast<size_t>(count);
    }
    char answer[12] = {};
    EXPECT_EQ(recv(fd, answer, sizeof(answer), MSG_WAITALL), 12);
    EXPECT_EQ(std::string(answer, sizeof(answer)), status);
    close(fd);
  }
  for (const char* length : {"Content-Length: 2000000", "Transfer-Encoding: chunked"})
    EXPECT_THAT(Raw(std::string("POST /x HTTP/1.1\r\nHost: x\r\n") + length + "\r\n\r\n"),
                StartsWith("HTTP/1.1 401"))
        << "at once";
  EXPECT_EQ(handled, 0);
}

class UnauthenticatedConnections : public Http {
 protected:
  // Nothing but `limits` cuts a connection.
  void ServeOnly(HttpLimits limits) {
    auto listener = ListenUnix(socket_);
    ASSERT_TRUE(listener);
    file_ = std::move(listener->file);
    limits.connections = 8;
    limits.idle_seconds = 3600;
    limits.whole = std::chrono::hours(1);
    limits.admit = [](const Request& head, uint64_t) {
      return head.headers.contains("token") ? std::nullopt
                                            : std::optional(Response{.status = 401, .body = "no"});
    };
    server_ = std::move(*HttpServer::StartAsync(
        listener->fd, [](Request, Responder respond) { respond([] { return Response{.body = "done"}; }); },
        limits));
  }
  // What comes next; empty: the end, or nothing for long.
  static std::string Next(int fd) {
    pollfd peer{fd, POLLIN, 0};
    char buffer[4096];
    const ssize_t count = poll(&peer, 1, 20'000) > 0 ? recv(fd, buffer, sizeof(buffer), 0) : 0;
    return std::string(buffer, count > 0 ? static_cast<size_t>(count) : 0);
  }
  static bool IsCut(int fd) {
    pollfd peer{fd, POLLIN, 0};
    char byte;
    return poll(&peer, 1, 20'000) > 0 && recv(fd, &byte, 1, 0) <= 0;
  }
  static constexpr const char* kAsk = "GET /x HTTP/1.1\r\nHost: x\r\nToken: t\r\n\r\n";
};

TEST_F(UnauthenticatedConnections, AreCutForNewOnesOldestFirstAndKeepNobodyOut) {
  HttpLimits limits;
  limits.max_unauthenticated = 2;
  limits.unauthenticated_timeout = std::chrono::hours(1);
  ServeOnly(limits);
  const int authenticated = Send(kAsk);
  EXPECT_THAT(Next(authenticated), HasSubstr("done"));
  std::vector<int> idle;
  for (int i = 0; i < 20; i++) idle.push_back(Send(""));
  for (int i = 0; i < 18; i++) ASSERT_TRUE(IsCut(idle[static_cast<size_t>(i)])) << i;
  const int other = Send(kAsk);
  EXPECT_THAT(Next(other), HasSubstr("done"));
  EXPECT_GT(send(authenticated, kAsk, std::strlen(kAsk), MSG_NOSIGNAL), 0);
  EXPECT_THAT(Next(authenticated), HasSubstr("done")) << "one that was let in stays";
  for (const int fd : idle) close(fd);
  close(authenticated);
  close(other);
}

TEST_F(UnauthenticatedConnections, AreCutAfterTheirTimeWhateverTheyAsk) {
  HttpLimits limits;
  limits.max_unauthenticated = 2;
  limits.unauthenticated_timeout = std::chrono::milliseconds(100);
  ServeOnly(limits);
  const int idle = Send("");
  EXPECT_TRUE(IsCut(idle));
  const int refused = Send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(Next(refused), HasSubstr("401"));
  EXPECT_TRUE(IsCut(refused));
  close(idle);
  close(refused);
}

}  // namespace
}  // namespace spillway::api
