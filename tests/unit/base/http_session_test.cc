// SPDX-License-Identifier: Apache-2.0
// One request at a time over libcurl, against a server in this process.
#include "base/http/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "api/http.h"
#include "api/listen.h"

namespace spillway::http {
namespace {

using Kind = Outcome::Kind;
using ::testing::ElementsAre;

class HttpSession : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto fd = api::ListenTcp("127.0.0.1:0");
    ASSERT_TRUE(fd) << fd.error().message;
    url_ = "http://127.0.0.1:" + std::to_string(api::PortOf(*fd));
    auto server = api::HttpServer::StartAsync(
        *fd,
        [this](const api::Request& request, api::Responder respond) { Answer(request, std::move(respond)); },
        api::HttpLimits());
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }

  void Answer(const api::Request& request, api::Responder respond) {
    const std::lock_guard lock(mutex_);
    asked_.push_back(request.method + " " + request.path + " " + request.body);
    if (request.path == "/silent") {
      silent_.push_back(std::move(respond));
      return;
    }
    api::Response response{.status = request.path == "/missing" ? 404 : 200, .body = "0123456789"};
    if (request.path == "/moved") {
      response.status = 302;
      response.headers = {{"Location", url_ + "/elsewhere"}};
    }
    respond([response] { return response; });
  }

  std::vector<std::string> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::vector<api::Responder> silent_;
  std::string url_;
  std::unique_ptr<api::HttpServer> server_;
  Session session_;
};

TEST_F(HttpSession, AnAnswerOfAnyStatusIsOneAndTheConnectionServesTheNext) {
  EXPECT_EQ(session_.Do({.url = url_ + "/a"}).body, "0123456789");
  const Outcome missing = session_.Do({.url = url_ + "/missing"});
  EXPECT_EQ(missing.kind, Kind::kDone);
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.error, "");
}

// What one request asked for is not the next one's: method, body, limit.
TEST_F(HttpSession, EachRequestStandsForItself) {
  const std::string body = "{}";
  EXPECT_EQ(session_.Do({.url = url_ + "/a", .method = "POST", .body = &body, .max_reply = 3}).kind,
            Kind::kTooLarge);
  EXPECT_EQ(session_.Do({.url = url_ + "/b"}).kind, Kind::kDone);
  EXPECT_THAT(asked(), ElementsAre("POST /a {}", "GET /b "));
}

// A token that the request carries goes to nobody whom the answer names.
TEST_F(HttpSession, ARedirectIsNotFollowed) {
  EXPECT_EQ(session_.Do({.url = url_ + "/moved", .headers = {"Authorization: Bearer secret"}}).status, 302);
  EXPECT_THAT(asked(), ElementsAre("GET /moved "));
}

TEST_F(HttpSession, WhoTakesTheBodyMayEndIt) {
  std::string seen;
  const Outcome whole = session_.Do({.url = url_ + "/a", .on_data = [&](std::string_view data) {
                                       seen += data;
                                       return true;
                                     }});
  EXPECT_EQ(whole.kind, Kind::kDone);
  EXPECT_EQ(seen, "0123456789");
  EXPECT_EQ(whole.body, "");
  EXPECT_EQ(session_.Do({.url = url_ + "/a", .on_data = [](std::string_view) { return false; }}).kind,
            Kind::kStopped);
}

TEST_F(HttpSession, ASilentServerIsLeftWhenAskedTo) {
  std::atomic<int> looks{0};
  const Outcome outcome = session_.Do({.url = url_ + "/silent", .stop = [&] { return ++looks > 1; }});
  EXPECT_EQ(outcome.kind, Kind::kStopped);
  EXPECT_EQ(outcome.status, 0);
}

TEST_F(HttpSession, NobodyThereIsToldFromAServerThatFails) {
  server_.reset();
  const Outcome outcome = session_.Do({.url = url_ + "/a"});
  EXPECT_EQ(outcome.kind, Kind::kNotConnected);
  EXPECT_NE(outcome.error, "");
  EXPECT_EQ(session_.Do({.url = "file:///etc/hostname"}).kind, Kind::kFailed) << "http and https alone";
}

}  // namespace
}  // namespace spillway::http
