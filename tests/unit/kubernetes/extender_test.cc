// SPDX-License-Identifier: Apache-2.0
// The extender at work between a scheduler and an API server that takes, refuses, contradicts, hangs and lies
// low.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/fd.h"
#include "extender_bed.h"

namespace spillway::kubernetes {
namespace {

using ::testing::HasSubstr;
using testing::KubePod;

TEST_F(ExtenderTest, FiltersRatesAndBindsWithTheGpuAsAnnotation) {
  Start();
  const json pod = PodOf("p", "600");
  EXPECT_EQ(Filter(pod)["NodeNames"], json({"a", "b"}));
  const json rated = Post("prioritize", {{"Pod", pod}, {"NodeNames", {"a", "b"}}});
  EXPECT_EQ(rated[0], (json{{"Host", "a"}, {"Score", 10}}));
  EXPECT_EQ(Bind(pod, "a"), "");
  EXPECT_EQ(server_.Get("p")["spec"]["nodeName"], "a");
  EXPECT_EQ(server_.Get("p")["metadata"]["annotations"]["spillway.io/gpu"], "0");
  const json next = Filter(PodOf("q", "600"));
  EXPECT_EQ(next["NodeNames"], json({"b"}));
  EXPECT_EQ(next["FailedNodes"]["a"], "the most that a GPU has left is 400 milli, asked for: 600");
  EXPECT_EQ(Metric("bookings{state=\"confirmed\"}"), 1);
}

TEST_F(ExtenderTest, ARefusedBindGivesTheGpuBack) {
  Start();
  const json pod = PodOf("p", "600");
  Filter(pod);
  server_.binding = FakeApiServer::Binding::kForbid;
  EXPECT_THAT(Bind(pod, "a"), HasSubstr("spillway: bind ml/p to a: "));
  EXPECT_EQ(Bookings(), json::array());
  server_.binding = FakeApiServer::Binding::kConflict;
  EXPECT_THAT(Bind(pod, "a"), HasSubstr("already assigned"));
  EXPECT_EQ(Bookings()[0]["node"], "elsewhere") << "where it is";
  EXPECT_EQ(Metric("given_back_total"), 2);
  EXPECT_EQ(Filter(PodOf("q", "1000"))["NodeNames"], json({"a", "b"}));
}

TEST_F(ExtenderTest, ABindThatMayYetBeDoneKeepsItsGpu) {
  Start();
  const json pod = PodOf("p", "600");
  Filter(pod);
  server_.binding = FakeApiServer::Binding::kBreak;
  EXPECT_THAT(Bind(pod, "a"), HasSubstr("etcd is tired"));
  EXPECT_EQ(Bookings()[0]["state"], "doubtful") << "the pod is on no node, yet";
  EXPECT_EQ(Metric("given_back_total"), 0);
  server_.binding = FakeApiServer::Binding::kTake;
  EXPECT_EQ(Bind(pod, "a"), "") << "another attempt";
  EXPECT_EQ(Bookings()[0]["state"], "confirmed");
}

TEST_F(ExtenderTest, APageThatIsNoApiServersWordLeavesTheBindInDoubt) {
  Start();
  const json pod = PodOf("p", "600");
  Filter(pod);
  server_.binding = FakeApiServer::Binding::kPage;
  EXPECT_THAT(Bind(pod, "a"), HasSubstr("bind ml/p to a: expected 201 or a Status of success, got 200: "));
  EXPECT_EQ(Bookings()[0]["state"], "doubtful");
  server_.binding = FakeApiServer::Binding::kOldSuccess;
  EXPECT_EQ(Bind(pod, "a"), "");
  EXPECT_EQ(Bookings()[0]["state"], "confirmed");
}

TEST_F(ExtenderTest, ABindOfAPodThatCannotBeLookedUpIsNamedAndLogged) {
  Start();
  const json pod = PodOf("p", "600");
  server_.Put(pod);
  server_.pods_break = true;
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("log", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  EXPECT_EQ(Bind(pod, "a"), "spillway: bind ml/p to a: 500: etcd is down");
  extender_.reset();  // whose threads write
  spdlog::set_default_logger(before);
  EXPECT_THAT(log.str(), HasSubstr("extender: bind ml/p to a: 500: etcd is down"));
}

TEST_F(ExtenderTest, ABindThatWasDoneThoughItsAnswerWasLostIsDone) {
  Start(200);
  const json pod = PodOf("p", "600");
  Filter(pod);
  server_.binding = FakeApiServer::Binding::kTakeAndHang;
  EXPECT_EQ(Bind(pod, "b"), "");
  EXPECT_EQ(Bookings()[0]["state"], "confirmed");
}

TEST_F(ExtenderTest, ABindOfWhichNobodyKnowsKeepsItsGpuUntilTheNextLook) {
  Start(200, 100);
  server_.lists_fail = true;
  const json pod = PodOf("p", "600");
  Filter(pod);
  server_.binding = FakeApiServer::Binding::kHang;
  server_.pods_hang = true;
  EXPECT_THAT(Bind(pod, "a"), HasSubstr("bind ml/p to a"));
  EXPECT_EQ(Bookings()[0]["state"], "doubtful");
  server_.pods_hang = false;
  const json again = Filter(pod);
  EXPECT_EQ(again["NodeNames"], json({"a"})) << "where it may be";
  EXPECT_THAT(again["FailedNodes"]["b"].get<std::string>(), HasSubstr("ml/p may already be bound to a"));
  EXPECT_EQ(Bookings()[0]["state"], "doubtful");
  EXPECT_EQ(Filter(PodOf("q", "1000"))["NodeNames"], json({"b"}));
  server_.lists_fail = false;
  EXPECT_TRUE(Eventually([&] { return Bookings().empty(); }));
  EXPECT_EQ(Filter(PodOf("q", "1000"))["NodeNames"], json({"a", "b"}));
}

TEST_F(ExtenderTest, AskedAgainAboutAPodInDoubtTheApiServerIsLookedAtFirst) {
  StartQuick();
  const json pod = PodOf("p", "600");
  Filter(pod);
  server_.binding = FakeApiServer::Binding::kBreak;
  Bind(pod, "a");
  ASSERT_EQ(Bookings()[0]["state"], "doubtful");
  EXPECT_EQ(Filter(pod)["NodeNames"], json({"a", "b"})) << "it is on no node";
  EXPECT_EQ(Bookings(), json::array());
}

TEST_F(ExtenderTest, ABindThatThrowsLeavesItsGpuInDoubtAndNothingUnderWay) {
  auto throwing = std::make_unique<ThrowingClient>(Config());
  ThrowingClient& kube = *throwing;
  Start(Config(), std::move(throwing));
  const json pod = PodOf("p", "600");
  Filter(pod);
  const std::string body =
      json{{"PodName", "p"}, {"PodNamespace", "ml"}, {"PodUID", "uid-p"}, {"Node", "a"}}.dump();
  for (const bool in_post : {true, false}) {
    kube.in_post = in_post;
    kube.in_get = !in_post;  // where it asks what became of the binding
    server_.binding = FakeApiServer::Binding::kBreak;
    const auto reply = client_->Post("/bind", body);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 500);
    EXPECT_THAT(reply->body, HasSubstr(in_post ? "no memory to post with" : "no memory to get with"));
    EXPECT_EQ(Bookings()[0]["state"], "doubtful") << "it may have been done";
  }
  kube.in_get = false;
  server_.binding = FakeApiServer::Binding::kTake;
  EXPECT_EQ(Bind(pod, "a"), "") << "no other bind is under way";
  EXPECT_EQ(Bookings()[0]["state"], "confirmed");
}

TEST_F(ExtenderTest, BindsThatHangHoldNothingElseUp) {
  Start(60'000);
  const json pod = PodOf("p", "100");
  Filter(pod);
  server_.binding = FakeApiServer::Binding::kHang;
  std::vector<std::thread> binds;
  for (int i = 0; i < 10; ++i) {
    server_.Put(PodOf("p" + std::to_string(i), "100"));
    binds.emplace_back([&, i] { Bind(KubePod("p" + std::to_string(i), "", ""), "a"); });
  }
  EXPECT_TRUE(Eventually([&] { return server_.hanging >= 4; }));
  EXPECT_EQ(Filter(pod)["NodeNames"], json({"a", "b"}));
  EXPECT_EQ(client_->Get("/healthz")->status, 200);
  EXPECT_EQ(Metric("bookings{state=\"reserved\"}"), 4);
  server_.LetGo();
  for (std::thread& bind : binds) bind.join();
}

TEST_F(ExtenderTest, NoRefusalIsGivenOnOldNews) {
  StartQuick();
  json pod = PodOf("p", "1000");
  for (const char* node : {"a", "b"}) {
    pod["metadata"]["name"] = node;
    pod["metadata"]["uid"] = node;
    Filter(pod);
    ASSERT_EQ(Bind(pod, node), "");
  }
  server_.Delete("b");
  const json next = PodOf("q", "1000");
  // A look is not repeated at once.
  EXPECT_TRUE(Eventually([&] { return Filter(next)["NodeNames"] == json({"b"}); }));
}

TEST_F(ExtenderTest, IsRebuiltFromTheApiServerWhenItStartsAgain) {
  Start();
  const json pod = PodOf("p", "600");
  Filter(pod);
  ASSERT_EQ(Bind(pod, "a"), "");
  const json before = Bookings();
  extender_.reset();
  Start();
  EXPECT_EQ(Bookings(), before);
  // And bind, which is told names only, asks for a pod that it has not heard of.
  const json other = PodOf("o", "300");
  server_.Put(other);
  EXPECT_EQ(Bind(other, "a"), "");
  EXPECT_EQ(server_.Get("o")["metadata"]["annotations"]["spillway.io/gpu"], "0");
}

// A stand-by that takes over, or a second one by mistake: what the cache knows of the other's binds is old.
TEST_F(ExtenderTest, TwoOfThemDoNotGiveOneGpuTwice) {
  Start();
  auto other = Extender::Start(Config());
  ASSERT_TRUE(other);
  ExtenderConfig self;
  self.api_server = "http://127.0.0.1:" + std::to_string((*other)->port());
  self.timeout_ms = 30'000;
  KubeClient theirs(self);
  ASSERT_TRUE(Eventually([&] { return theirs.Get("/healthz")->status == 200; }));
  const auto bind = [&](KubeClient& at, const std::string& name) {
    server_.Put(PodOf(name, "600"));
    const auto reply = at.Post(
        "/bind",
        json{{"PodName", name}, {"PodNamespace", "ml"}, {"PodUID", "uid-" + name}, {"Node", "a"}}.dump());
    return json::parse(reply->body)["Error"].get<std::string>();
  };
  EXPECT_EQ(bind(*client_, "p"), "");
  EXPECT_THAT(bind(theirs, "q"), HasSubstr("the most that a GPU has left is 400 milli"));
  EXPECT_FALSE(server_.Get("q")["spec"].contains("nodeName"));
}

TEST_F(ExtenderTest, AClaimIsWrittenAgainWhereAnotherWroteBetween) {
  Start();
  const json pod = PodOf("p", "600");
  server_.Put(pod);
  server_.claim_races = 2;
  EXPECT_EQ(Bind(pod, "a"), "");
  EXPECT_THAT(server_.ClaimsAt("a"), HasSubstr("uid-p"));
  server_.claim_races = 1000;
  const json other = PodOf("q", "300");
  server_.Put(other);
  EXPECT_THAT(Bind(other, "a"), HasSubstr("gave up after repeated conflicting updates"));
  EXPECT_EQ(Bookings().size(), 1u);
}

TEST_F(ExtenderTest, ARefusedBindsClaimIsTakenBackAndGonePodsClaimsGo) {
  Start();
  const json pod = PodOf("p", "600");
  server_.Put(pod);
  server_.binding = FakeApiServer::Binding::kForbid;
  EXPECT_THAT(Bind(pod, "a"), HasSubstr("forbidden"));
  EXPECT_EQ(server_.ClaimsAt("a"), "{}");
  server_.binding = FakeApiServer::Binding::kTake;
  EXPECT_EQ(Bind(pod, "a"), "");
  server_.Delete("p");
  extender_.reset();
  Start();
  const json next = PodOf("q", "1000");
  server_.Put(next);
  EXPECT_EQ(Bind(next, "a"), "") << "it is not kept for a pod that is no more";
  EXPECT_THAT(server_.ClaimsAt("a"), ::testing::Not(HasSubstr("uid-p")));
}

// The pods of a node's claims are asked for one by one, and other nodes' binds wait meanwhile.
TEST_F(ExtenderTest, ANodeOfManyUnknownClaimsIsRefusedInTime) {
  Start();
  const json pod = PodOf("p", "600");
  server_.Put(pod);
  scheduler::Claims claims;
  for (int i = 0; i < 65; ++i)
    claims["uid-" + std::to_string(i)] = {"ml", "gone-" + std::to_string(i), "0", "", 1, "x9"};
  const json node = {{"metadata", {{"resourceVersion", "1"}}}};
  server_.PatchNode("a", json::parse(scheduler::ClaimsPatch(node, claims)));
  EXPECT_THAT(Bind(pod, "a"), HasSubstr("over 64 claims of pods that are not known"));
  EXPECT_EQ(Bind(pod, "b"), "");
}

// Whoever may make pods can give one the name that a claim bears, and ask in it for what nobody understands.
TEST_F(ExtenderTest, AnUnreadablePodOfAClaimsNameKeepsNobodyFromTheNode) {
  Start();
  const json pod = PodOf("p", "600");
  server_.Put(pod);
  ASSERT_EQ(Bind(pod, "a"), "");
  json unreadable = PodOf("p", "1500");
  unreadable["metadata"]["uid"] = "uid-of-another";
  server_.Put(unreadable);
  extender_.reset();
  Start();
  const json next = PodOf("q", "1000");
  server_.Put(next);
  EXPECT_EQ(Bind(next, "a"), "");
  EXPECT_THAT(server_.ClaimsAt("a"), ::testing::Not(HasSubstr("uid-p")));
  EXPECT_THAT(Bind(pod, "b"), HasSubstr("ml/p is gone, or replaced by another pod"));
}

TEST_F(ExtenderTest, AfterARestartAClaimHoldsAndNotAnEditedAnnotation) {
  Start();
  const json pod = PodOf("p", "600");
  server_.Put(pod);
  ASSERT_EQ(Bind(pod, "a"), "");
  json edited = server_.Get("p");
  edited["metadata"]["annotations"]["spillway.io/gpu"] = "7";
  server_.Put(edited);
  extender_.reset();
  Start();
  EXPECT_EQ(Bookings()[0]["gpu"], "0");
  EXPECT_EQ(Bookings()[0]["placed"], true);
}

TEST_F(ExtenderTest, WhatAWatchTellsIsKnownWithoutAnotherLook) {
  Start();
  json pod = PodOf("p", "600");
  pod["spec"]["nodeName"] = "a";
  pod["metadata"]["annotations"]["spillway.io/gpu"] = "0";
  server_.Tell("ADDED", pod);
  EXPECT_TRUE(Eventually([&] { return Bookings().size() == 1; }));
  EXPECT_EQ(Bookings()[0]["node"], "a");
  server_.Tell("DELETED", pod);
  EXPECT_TRUE(Eventually([&] { return Bookings().empty(); }));
  // It has lost its place: everything is looked at again.
  json other = PodOf("q", "600");
  other["spec"]["nodeName"] = "b";
  server_.Put(other);
  server_.Tell("ERROR", {{"kind", "Status"}, {"code", 410}});
  EXPECT_TRUE(Eventually([&] { return Bookings().size() == 1; }));
}

TEST_F(ExtenderTest, WhereWatchesAreRefusedItLooksNowAndThen) {
  server_.watches_fail = true;
  Start(5000, 100);
  json pod = PodOf("p", "600");
  pod["spec"]["nodeName"] = "a";
  server_.Put(pod);
  EXPECT_TRUE(Eventually([&] { return Bookings().size() == 1; }));
}

TEST_F(ExtenderTest, APodThatWaitedAndWasDeletedIsForgotten) {
  server_.watches_fail = true;
  Start(5000, 100);
  for (const char* name : {"p", "q"}) Filter(PodOf(name, "1000"));
  EXPECT_EQ(Metric("waiting_pods"), 0);
  for (const char* name : {"p", "q"})
    EXPECT_EQ(Bind(server_.Get(name), name == std::string("p") ? "a" : "b"), "");
  for (const char* name : {"r", "s"}) EXPECT_EQ(Filter(PodOf(name, "1000"))["NodeNames"], json::array());
  EXPECT_EQ(Metric("waiting_pods"), 2);
  server_.Delete("r");
  EXPECT_TRUE(Eventually([&] { return Metric("waiting_pods") == 1; }));
  // The other one goes on to wait, also after a look that began later.
  server_.Delete("p");
  EXPECT_TRUE(Eventually([&] { return Bookings().size() == 1; }));
  EXPECT_EQ(Metric("waiting_pods"), 1);
}

TEST_F(ExtenderTest, APodWithoutGpusIsBoundAsItIs) {
  Start();
  const json pod = KubePod("p", "", "");
  EXPECT_EQ(Filter(pod)["NodeNames"], json({"a", "b"}));
  EXPECT_EQ(Bind(pod, "b"), "");
  EXPECT_EQ(Bookings(), json::array());
}

TEST_F(ExtenderTest, AnswersNothingAboutGpusBeforeItIsInStep) {
  server_.lists_fail = true;
  StartOutOfStep(server_.Config());
  const json reply = Filter(PodOf("p", "600"));
  EXPECT_THAT(reply["Error"].get<std::string>(), HasSubstr("not synchronized with the API server"));
  EXPECT_EQ(client_->Get("/healthz")->status, 503);
}

// What who announces a body of so many bytes, and sends none of them, is told. (Who is sending them when the
// connection is closed may not see the answer.)
std::string AnswerToAnnounced(int port, size_t bytes) {
  const base::Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{20, 0};
  setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  const std::string head =
      "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n";
  EXPECT_EQ(send(client.get(), head.data(), head.size(), MSG_NOSIGNAL), static_cast<ssize_t>(head.size()));
  std::string answer(4096, '\0');
  answer.resize(
      static_cast<size_t>(std::max<ssize_t>(recv(client.get(), answer.data(), answer.size(), 0), 0)));
  return answer;
}

TEST_F(ExtenderTest, RudeRequestsAreAnsweredInWords) {
  Start();
  for (const char* body : {"", "{", "[]", "null", "{\"Pod\":{}}"}) {
    for (const char* verb : {"/filter", "/bind"}) {
      const auto reply = client_->Post(verb, body);
      ASSERT_TRUE(reply);
      EXPECT_EQ(reply->status, 200);
      EXPECT_THAT(json::parse(reply->body)["Error"].get<std::string>(), HasSubstr("expected")) << body;
    }
    EXPECT_EQ(client_->Post("/prioritize", body)->status, 400) << "it has no field for an error";
  }
  EXPECT_EQ(client_->Get("/filter")->status, 405);
  EXPECT_EQ(client_->Get("/nothing")->status, 404);
  EXPECT_THAT(AnswerToAnnounced(extender_->port(), 17 << 20), HasSubstr("HTTP/1.1 413 "));
  EXPECT_THAT(extender_->MetricsText(), HasSubstr("requests_total{verb=\"filter\",result=\"failed\"} 5"));
}

TEST(ExtenderStart, RefusesABadClusterFileAndATakenAddress) {
  ExtenderConfig config;
  config.listen = "127.0.0.1:0";
  config.cluster = "/nowhere/c.yaml";
  EXPECT_EQ(Extender::Start(config).error().code, ErrorCode::kBadInput);
  config.cluster.clear();
  auto first = Extender::Start(config);
  ASSERT_TRUE(first);
  config.listen = "127.0.0.1:" + std::to_string((*first)->port());
  EXPECT_THAT(Extender::Start(config).error().message, HasSubstr("listen on"));
}

}  // namespace
}  // namespace spillway::kubernetes
