// SPDX-License-Identifier: Apache-2.0
// `spillway model` as its users meet it, over a gateway that says what it was told to say.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/http.h"
#include "api/listen.h"
#include "program.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::Outcome;

json On(uint64_t id, const char* gpu, const char* phase, uint64_t replaces = 0) {
  json one{{"id", id}, {"gpu", gpu}, {"phase", phase}};
  if (replaces != 0) one["replaces"] = replaces;
  return one;
}

// One model of two replicas.
json ModelOf(const std::vector<json>& instances, const std::string& trouble = "") {
  int ready = 0;
  bool is_moving = false;
  for (const json& one : instances) {
    ready += one.at("phase") == "ready";
    is_moving = is_moving || one.contains("replaces");
  }
  json model{
      {"name", "m"}, {"replicas", 2}, {"ready", ready}, {"moving", is_moving}, {"instances", instances}};
  if (!trouble.empty()) model["trouble"] = trouble;
  return model;
}

json FleetOf(const std::vector<json>& models) {
  return {{"models", models},
          {"hosts",
           {{{"name", "h1"}, {"up", true}, {"gpus", json::array()}},
            {{"name", "lost"}, {"up", false}, {"gpus", json::array()}}}},
          {"gpus_on", 1},
          {"gpu_hours", 0.0},
          {"moves", {{"done", 0}, {"failed", 0}, {"left", 0.0}}}};
}

class ModelVerbs : public ::testing::Test {
 protected:
  // Answers a POST with `answer`, and the GETs after it with each of `looks`, the last one for ever.
  Outcome Run(const std::vector<std::string>& words, const json& answer, std::vector<json> looks) {
    auto socket = api::ListenUnix(folder_.File("control.sock"));
    EXPECT_TRUE(socket) << socket.error().message;
    size_t look = 0;
    auto server = api::HttpServer::Start(socket->fd, [&](const api::Request& request) {
      if (request.method == "POST") return api::Response{.body = answer.dump()};
      return api::Response{.body = looks[std::min(look++, looks.size() - 1)].dump()};
    });
    EXPECT_TRUE(server) << server.error().message;
    std::vector<std::string> argv = {SPILLWAY, "model"};
    argv.insert(argv.end(), words.begin(), words.end());
    argv.insert(argv.end(), {"--gateway", folder_.File("control.sock")});
    return testing::RunProgram(argv);
  }

  testing::Folder folder_;
  const json one_ = On(1, "h1/g0", "ready"), two_ = On(2, "h1/g1", "ready");
};

TEST_F(ModelVerbs, AMoveThatArrivesEndsWithTheModelWhereItIsNow) {
  const json begun = On(3, "h2/g0", "starting", 1);
  const Outcome moved =
      Run({"move", "m", "--to", "h2/g0", "--wait"}, ModelOf({one_, two_, begun}),
          {FleetOf({ModelOf({one_, two_, begun})}),
           FleetOf({ModelOf({On(1, "h1/g0", "draining"), two_, On(3, "h2/g0", "ready", 1)})}),
           FleetOf({ModelOf({two_, On(3, "h2/g0", "ready")})})});
  EXPECT_EQ(moved.exit_code, 0) << moved.err;
  EXPECT_EQ(moved.out, "m: 2 of 2 ready on h1/g1, h2/g0\n");
}

TEST_F(ModelVerbs, AMoveThatFailedIsAFailureThoughTheModelIsServedOnWhereItWas) {
  const json begun = On(3, "h1/g1", "starting", 1);
  // A replica was there before.
  const Outcome failed = Run({"move", "m", "--to", "h1/g1", "--wait"}, ModelOf({one_, two_, begun}),
                             {FleetOf({ModelOf({one_, two_, begun})}),
                              FleetOf({ModelOf({one_, two_}, "it was not ready within 1000 ms")})});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_EQ(failed.out, "");
  EXPECT_EQ(failed.err,
            "spillway: model m: not moved to h1/g1: 2 of 2 ready on h1/g0, h1/g1; "
            "it was not ready within 1000 ms\n");
}

TEST_F(ModelVerbs, TheMigProfileThatAnInstanceHoldsIsBesideIt) {
  json held = On(1, "h1/g0", "ready"), starting = On(2, "h1/g0", "starting");
  held["profile"] = "3g";
  starting["profile"] = "1g";
  json fleet = FleetOf({ModelOf({held, starting})});
  fleet["hosts"][0]["gpus"] = {
      {{"id", "g0"}, {"model", "A100-40"}, {"share_used", 0.4}, {"profiles", {"3g", "1g"}}}};
  const std::string text = Run({"list"}, fleet, {fleet}).out;
  EXPECT_THAT(text, ::testing::StartsWith("m: 1 of 2 ready on h1/g0 (3g), h1/g0 (1g, starting)\n"));
  EXPECT_THAT(text, HasSubstr("host h1: g0 40 % (3g, 1g)\n"));
}

TEST_F(ModelVerbs, AGatewaysAddressIsNotItsSocket) {
  for (const char* address : {"127.0.0.1:7420", "tcp:127.0.0.1:7420", "http://gw:80", "unix:/run/c.sock"}) {
    const Outcome refused = testing::RunProgram({SPILLWAY, "model", "list", "--gateway", address});
    EXPECT_EQ(refused.exit_code, 2) << address;
    EXPECT_THAT(refused.err, HasSubstr("--gateway: expected the path of the gateway's controller.socket"));
  }
}

TEST_F(ModelVerbs, AModelOfNoReplicasIsNotBeingRemoved) {
  json none = ModelOf({});
  none["replicas"] = 0;
  json removed = none;
  removed["removing"] = true;
  const json fleet = FleetOf({none, removed});
  EXPECT_THAT(Run({"list"}, fleet, {fleet}).out,
              ::testing::StartsWith("m: 0 of 0 ready\nm: being removed\n"));
}

TEST_F(ModelVerbs, AnAnswerOfAnotherProgramIsAnErrorInOneLine) {
  for (const json& answer : {json::object(), json{{"models", 7}}, json{{"models", {{{"name", 1}}}}}}) {
    const Outcome listed = Run({"list"}, answer, {answer});
    EXPECT_EQ(listed.exit_code, 1) << answer;
    EXPECT_THAT(listed.err, ::testing::StartsWith("spillway: unexpected answer: ")) << answer;
    EXPECT_EQ(std::count(listed.err.begin(), listed.err.end(), '\n'), 1) << listed.err;
  }
}

TEST_F(ModelVerbs, AMoveThatFailsIsNotWaitedForUntilItsInstanceIsGone) {
  const Outcome failed = Run({"move", "m", "--wait"}, ModelOf({one_, two_, On(3, "h2/g0", "starting", 1)}),
                             {FleetOf({ModelOf({one_, two_, On(3, "h2/g0", "stopping")})})});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, HasSubstr("model m: not moved: 2 of 2 ready"));
}

TEST_F(ModelVerbs, AMoveOfAModelThatIsRemovedMeanwhileFails) {
  const Outcome failed =
      Run({"move", "m", "--wait"}, ModelOf({one_, two_, On(3, "h2/g0", "starting", 1)}), {FleetOf({})});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_EQ(failed.err, "spillway: model m: not moved: it was removed\n");
}

TEST_F(ModelVerbs, AnAdditionIsDoneThoughAMoveThatWasUnderWayFails) {
  folder_.Write("m.yaml", "model: {name: m, kind: echo, row_bytes: 8}\n");
  const Outcome added =
      Run({"add", folder_.File("m.yaml"), "--wait"}, ModelOf({one_, two_, On(3, "h2/g0", "starting", 1)}),
          {FleetOf({ModelOf({one_, two_})})});
  EXPECT_EQ(added.exit_code, 0) << added.err;
  EXPECT_EQ(added.out, "m: 2 of 2 ready on h1/g0, h1/g1\n");
}

TEST_F(ModelVerbs, WhatIsToEndIsWaitedForButWhereItIsStranded) {
  folder_.Write("m.yaml", "model: {name: m, kind: echo, row_bytes: 8}\n");
  const json ending = On(3, "h1/g2", "stopping");
  json stranded = On(4, "lost/g0", "stopping");
  stranded["stranded"] = true;
  const Outcome added =
      Run({"add", folder_.File("m.yaml"), "--wait", "--limit", "5"}, ModelOf({one_, two_}),
          {FleetOf({ModelOf({one_, two_, ending, stranded})}), FleetOf({ModelOf({one_, two_, stranded})})});
  EXPECT_EQ(added.exit_code, 0) << added.err;
  EXPECT_EQ(added.out, "m: 2 of 2 ready on h1/g0, h1/g1; to be stopped once they are back: lost/g0\n");
}

}  // namespace
}  // namespace spillway
