// SPDX-License-Identifier: Apache-2.0
// The API over a real UNIX socket: well-behaved clients, rude ones, and many at once.
#include "api/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "api/client.h"
#include "api/control.h"
#include "api/listen.h"
#include "api/routes.h"
#include "fake_switch.h"
#include "http_bed.h"

namespace spillway::api {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Response Echo(const Request& request) {
  json body = {{"method", request.method}, {"path", request.path}, {"size", request.body.size()}};
  for (const auto& [key, value] : request.query) body["query"][key] = value;
  return {.body = body.dump()};
}

TEST_F(Http, CarriesMethodPathQueryAndBody) {
  Serve(Echo);
  Client client(socket_);
  const auto reply =
      client.Post("/v1/units/" + Client::Encode("a b%") + "?name=" + Client::Encode("/x y&z"), "12345");
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  const json echo = json::parse(reply->body);
  EXPECT_EQ(echo["method"], "POST");
  EXPECT_EQ(echo["path"], "/v1/units/a b%");
  EXPECT_EQ(echo["query"]["name"], "/x y&z");
  EXPECT_EQ(echo["size"], 5);
  EXPECT_EQ(json::parse(client.Get("/")->body)["method"], "GET");
}

TEST_F(Http, OnlyOwnerAndGroupMayConnect) {
  Serve(Echo);
  struct stat status;
  ASSERT_EQ(stat(socket_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0660u);
}

TEST_F(Http, TakesBodiesUpToTheLimitAndNoByteMore) {
  Serve(Echo);
  Client client(socket_);
  const auto fits = client.Post("/", std::string(HttpServer::kMaxBody, 'x'));
  ASSERT_TRUE(fits.has_value()) << fits.error().message;
  EXPECT_EQ(json::parse(fits->body)["size"], HttpServer::kMaxBody);
  EXPECT_THAT(Raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
              StartsWith("HTTP/1.1 4"));
}

TEST_F(Http, AClientTakesAnswersUpToItsLimitAndNoByteMore) {
  Serve([](const Request& request) {
    return Response{.body = std::string(std::stoull(request.query.at("bytes")), 'x')};
  });
  Service service{socket_};
  service.max_reply = 100'000;
  Client client(service);
  const auto fits = client.Get("/?bytes=100000");
  ASSERT_TRUE(fits.has_value()) << fits.error().message;
  EXPECT_EQ(fits->body.size(), service.max_reply);
  const auto larger = client.Get("/?bytes=100001");
  ASSERT_FALSE(larger.has_value());
  EXPECT_EQ(larger.error().message, socket_ + ": expected an answer of at most 100000 bytes");
  EXPECT_TRUE(client.Get("/?bytes=1").has_value()) << "it can be asked again";
}

TEST_F(Http, LimitsBodiesThatDoNotSayTheirLength) {
  std::atomic<int> handled = 0;
  Serve([&handled](const Request& request) {
    handled++;
    return Echo(request);
  });
  std::string chunks =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
  for (int i = 0; i < 33; i++) chunks += "8000\r\n" + std::string(0x8000, 'x') + "\r\n";
  EXPECT_THAT(Raw(chunks + "0\r\n\r\n"), StartsWith("HTTP/1.1 413"));
  EXPECT_EQ(handled, 0);
}

TEST_F(Http, RefusesWhatAProxyMayHaveReadOtherwise) {
  std::atomic<int> handled = 0;
  Serve([&handled](const Request& request) {
    handled++;
    return Echo(request);
  });
  const std::string next = "GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  for (const char* headers : {
           "Content-Length: 2\r\nContent-Length: 30\r\n",
           "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding : chunked\r\n",
           "Transfer-Encoding: chunked\r\ntransfer-encoding: identity\r\n",
           "Transfer-Encoding: xchunked\r\n",
           "Transfer-Encoding: gzip, chunked\r\n",
           "Content-Length: 2\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n",
       }) {
    const std::string answer =
        Raw("POST / HTTP/1.1\r\nHost: x\r\n" + std::string(headers) + "\r\n0\r\n\r\n" + next);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400")) << headers;
    EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos) << headers << "is followed by a second answer";
  }
  EXPECT_EQ(handled, 0);
}

TEST_F(Http, APathDoesNotEndAtAnEscapedNul) {
  std::string path;
  Serve([&path](const Request& request) {
    path = request.path;
    return Echo(request);
  });
  Raw("GET /v1/a%20b%00/c%2Fd%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(path, "/v1/a b%00/c/d%00");
}

TEST_F(Http, OutlivesGarbage) {
  Serve(Echo);
  Rude("");
  Rude("\r\n\r\n\r\n");
  Rude("GET\r\n\r\n");
  Rude(std::string(100000, 'A'));
  Rude(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11));
  Rude("GET / HTTP/1.1\r\nHost: x\r\n" + std::string(200000, 'h') + ": y\r\n\r\n");
  Rude("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nshort");
  Rude("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
  Rude("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n");
  Rude("GET /%00%ff%zz?%=%&a&&=b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(Client(socket_).Get("/").has_value());
}

TEST_F(Http, HandlerExceptionsBecomeAnAnswer) {
  Serve([](const Request&) -> Response { throw std::runtime_error("out of luck"); });
  Client client(socket_);
  const auto reply = client.Get("/");
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 500);
  EXPECT_EQ(Client::Accept(reply).error().message, "out of luck");
}

TEST_F(Http, WhoeverServesMaySayHowLargeABodyIs) {
  auto listener = ListenUnix(socket_);
  ASSERT_TRUE(listener);
  auto server = HttpServer::Start(
      listener->fd,
      [](const Request& request) { return Response{.body = std::to_string(request.body.size())}; }, 6 << 20);
  ASSERT_TRUE(server);
  Client client(socket_);
  const auto fits = Client::Accept(client.Post("/", std::string(5 << 20, 'x')));
  EXPECT_EQ(fits.value_or("refused"), std::to_string(5 << 20));
  EXPECT_FALSE(Client::Accept(client.Post("/", std::string((6 << 20) + 1, 'x'))));
}

TEST_F(Http, AnErrorWhoseCodeIsNoWordIsOneAllTheSame) {
  Serve([](const Request&) { return Response{.status = 500, .body = R"({"error":"broken","code":5})"}; });
  Client client(socket_);
  const auto error = Client::Accept(client.Get("/"));
  ASSERT_FALSE(error.has_value());
  EXPECT_EQ(error.error().code, ErrorCode::kSystem);
  EXPECT_EQ(error.error().message, "broken");
}

TEST_F(Http, ErrorsWithBytesThatAreNotTextStillArrive) {
  Serve([](const Request& request) { return ErrorResponse(400, "bad_input", "what is " + request.body); });
  Client client(socket_);
  const auto error = Client::Accept(client.Post("/", "\xff\xfe"));
  ASSERT_FALSE(error.has_value());
  EXPECT_EQ(error.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(error.error().message, StartsWith("what is "));
}

TEST_F(Http, HeadIsGetWithoutABody) {
  Serve(Echo);
  const std::string answer = Raw("HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\n"));
}

TEST_F(Http, NobodyThereIsSaidClearly) {
  const auto reply = Client(socket_).Get("/");
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(reply.error().message, HasSubstr(socket_ + ": no spillwayd answers"));
}

TEST_F(Http, ServesMetricsOverTcp) {
  testing::FakeSwitch fake(testing::PoolConfig());
  Control control(fake, {"1", "default", "", ""});
  const auto fd = ListenTcp("127.0.0.1:0");
  ASSERT_TRUE(fd.has_value()) << fd.error().message;
  auto server =
      HttpServer::Start(*fd, [&control](const Request& request) { return RouteMetrics(control, request); });
  EXPECT_TRUE(server.has_value());
}

// For TSan: the fake switch is not thread-safe, so any way past the mutex is a data race.
TEST_F(Http, ClientsTheTimerAndReloadsMeetSafely) {
  testing::FakeSwitch fake(testing::PoolConfig());
  Control control(fake, {"1", "default", "/nonexistent", ""});
  Serve([&control](const Request& request) { return Route(control, request); });
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      Client client(socket_);
      for (int i = 0; i < 25; i++) {
        const json body = {{"status", i % 2 ? "up" : "draining"}, {"capacity", 1 + (t * 25 + i) % 7}};
        const auto changed = client.Post("/v1/units/rack1/s1/nic", body.dump());
        const auto applied = client.Post("/v1/apply", testing::PoolYaml());
        const auto read = client.Get(i % 3 ? "/metrics" : "/v1/status");
        failures += !Client::Accept(changed) || !Client::Accept(applied) || !Client::Accept(read);
      }
    });
  threads.emplace_back([&control] {
    for (int i = 0; i < 200; i++) {
      control.Tick();
      control.OnNetlink();
      EXPECT_FALSE(control.Reload().has_value());
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

// libmicrohttpd knows silence only, which a byte now and then breaks.
TEST_F(Http, ARequestThatTricklesInIsCutAndOthersAreServed) {
  auto listener = ListenUnix(socket_);
  ASSERT_TRUE(listener);
  file_ = std::move(listener->file);
  HttpLimits limits;
  limits.whole = std::chrono::milliseconds(100);
  server_ = std::move(*HttpServer::StartAsync(
      listener->fd, [](Request, Responder respond) { respond([] { return Response{.body = "all"}; }); },
      limits));
  for (const std::string& begun : {std::string("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"),
                                   std::string("GET /x HTTP/1.1\r\nX-Long: ")}) {
    const int fd = Send(begun);
    bool cut = false;
    for (int sent = 0; sent < 99 && !cut; sent++) {
      if (send(fd, "a", 1, MSG_NOSIGNAL) <= 0) cut = true;
      pollfd peer{fd, POLLIN, 0};
      char byte;
      if (poll(&peer, 1, 20) > 0) cut = recv(fd, &byte, 1, 0) <= 0;
    }
    close(fd);
    EXPECT_TRUE(cut) << begun;
  }
  EXPECT_THAT(Raw("GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), HasSubstr("all"));
}

}  // namespace
}  // namespace spillway::api
