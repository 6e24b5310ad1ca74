// SPDX-License-Identifier: Apache-2.0
// The HTTP front over TCP, with a gateway and an executor in this process: what its requests and answers cost
// of the gateway's memory.
#include "gateway/http/inference_front.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <future>
#include <optional>
#include <string>

#include "api/http.h"
#include "api/listen.h"
#include "base/fd.h"
#include "gateway/executor/program_slice.h"
#include "gateway/http/text_workers.h"
#include "gateway_bed.h"
#include "model_specs.h"

namespace spillway::gateway {
namespace {

using gateway::Echo;
using gateway::GatewayBed;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kRowBytes = 64, kRows = 2048, kBytes = kRowBytes * kRows;

class FrontBed {
 public:
  explicit FrontBed(uint64_t memory) : FrontBed(Config(memory)) {}
  explicit FrontBed(gateway::GatewayConfig config)
      : bed_(std::move(config)), executor_(bed_.Executor("host"), *engine_) {
    const auto joined = executor_.Join();
    EXPECT_TRUE(joined) << joined.error().message;
    // The executor is told first, HTTP's thread a moment later.
    bed_.Until([](gateway::Server& server) { return !server.Models()->empty(); });
    const auto fd = api::ListenTcp("127.0.0.1:0");
    port_ = api::PortOf(*fd);
    // Answers stay in the front, not in the kernel.
    const int small = 4096;
    setsockopt(*fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    http_ = std::move(*api::HttpServer::StartAsync(*fd, InferenceFront(*bed_.server, text_),
                                                   InferenceLimits(*bed_.server)));
  }

  base::Fd Connect() const {
    base::Fd client(socket(AF_INET, SOCK_STREAM, 0));
    // Who waits for an answer that never comes fails instead.
    const timeval patience{20, 0};
    setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const int small = 4096;
    setsockopt(client.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port_));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    return client;
  }
  static void Send(const base::Fd& client, const std::string& text) {
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t now = send(client.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) break;
      sent += static_cast<size_t>(now);
    }
  }
  static bool IsAnsweredWithin(const base::Fd& client, std::chrono::milliseconds time) {
    pollfd readable{client.get(), POLLIN, 0};
    return poll(&readable, 1, static_cast<int>(time.count())) > 0;
  }

  // A client that has asked for kRows rows of zeros, and reads nothing yet. `text`: it wants JSON back.
  base::Fd Ask(bool text = false) const {
    base::Fd client = Connect();
    const std::string json = fmt::format(
        R"({{"inputs": [{{"name": "input", "datatype": "UINT8", "shape": [{}, {}],)"
        R"( "parameters": {{"binary_data_size": {}}}}}], "parameters": {{"binary_data_output": {}}}}})",
        kRows, kRowBytes, kBytes, text ? "false" : "true");
    const std::string request =
        fmt::format(
            "POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n"
            "Inference-Header-Content-Length: {}\r\n\r\n{}",
            json.size() + kBytes, json.size(), json) +
        std::string(kBytes, '\0');
    Send(client, request);
    return client;
  }

  // A client that has sent so many rows of zeros as JSON, wants them back as bytes, and reads nothing yet.
  base::Fd AskInJson(uint64_t rows) const {
    base::Fd client = Connect();
    std::string data = "0";
    for (uint64_t i = 1; i < rows * kRowBytes; i++) data += ",0";
    const std::string json = fmt::format(
        R"({{"inputs": [{{"name": "input", "datatype": "UINT8", "shape": [{}, {}], "data": [{}]}}],)"
        R"( "parameters": {{"binary_data_output": true}}}})",
        rows, kRowBytes, data);
    Send(client, fmt::format("POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                             "Content-Length: {}\r\n\r\n{}",
                             json.size(), json));
    return client;
  }

  TextWorkers& text() { return text_; }
  // A request has come and is not answered.
  void UntilTaken() {
    bed_.Until([](gateway::Server& server) { return server.Unfinished().use_count() > 2; });
  }
  // It takes nothing new any more.
  void Drain() {
    bed_.server->Drain();
    bed_.Until([](gateway::Server& server) { return server.Unfinished() == nullptr; });
  }
  auto Dial() { return bed_.Dial(); }

  static std::string ReadAll(const base::Fd& client) {
    std::string all;
    std::string piece(64 << 10, '\0');
    for (ssize_t got; (got = recv(client.get(), piece.data(), piece.size(), 0)) > 0;)
      all.append(piece, 0, static_cast<size_t>(got));
    return all;
  }
  static uint64_t BodyBytes(const std::string& answer) { return answer.size() - answer.find("\r\n\r\n") - 4; }

  void UntilHeld(uint64_t bytes) {
    bed_.Until([&](gateway::Server& server) { return server.broker().memory_held() == bytes; });
  }
  // So many requests were delivered, and all of them answered.
  void UntilAnswered(uint64_t requests) {
    bed_.Until([&](gateway::Server& server) {
      return server.broker().running() == 0 && server.broker().counts().delivered >= requests;
    });
  }
  // What is held once the answer's body was made: before, the outputs are held and the most that they may
  // take as text, which is four times as much.
  uint64_t HeldByBody() {
    bed_.Until([](gateway::Server& server) { return server.broker().memory_held() < 5 * kBytes; });
    return bed_.Ask([](gateway::Server& server) { return server.broker().memory_held(); });
  }

 private:
  static gateway::GatewayConfig Config(uint64_t memory) {
    gateway::GatewayConfig config = GatewayBed::Config();
    config.broker.memory = memory;
    return config;
  }

  GatewayBed bed_;
  std::unique_ptr<gateway::Engine> engine_ =
      std::move(*gateway::MakeEmulatedEngine({Echo(kRowBytes, kRows)}));
  gateway::Executor executor_;
  int port_ = 0;
  TextWorkers text_;
  std::unique_ptr<api::HttpServer> http_;
};

// Of "HTTP/1.1 200 OK...".
std::string StatusOf(const std::string& answer) { return answer.size() < 12 ? answer : answer.substr(9, 3); }

TEST(InferenceFront, AnAnswerCountsAsMemoryUntilItIsSent) {
  for (const bool text : {false, true}) {
    // Room for a request with its outputs, and their text, but not beside an answer.
    FrontBed bed(text ? 8 * kBytes : 3 * kBytes - 1);
    {
      const auto client = bed.Ask(text);
      bed.UntilAnswered(1);
      const uint64_t held = bed.HeldByBody();
      const std::string refused = FrontBed::ReadAll(bed.Ask(text));
      ASSERT_EQ(StatusOf(refused), "503");
      EXPECT_THAT(refused, HasSubstr("memory for requests is full"));
      const std::string answer = FrontBed::ReadAll(client);
      ASSERT_EQ(StatusOf(answer), "200");
      EXPECT_GE(held + 4096, FrontBed::BodyBytes(answer)) << text;
      EXPECT_LE(held, 2 * FrontBed::BodyBytes(answer) + 4096) << text;
      bed.UntilHeld(0);
    }
    {
      const auto client = bed.Ask(text);
      bed.UntilAnswered(2);
    }
    bed.UntilHeld(0);  // a client that leaves takes its answer along
    EXPECT_EQ(StatusOf(FrontBed::ReadAll(bed.Ask(text))), "200");
  }
}

// A gateway's HTTP front by itself; the test brings executors.
struct BareFront {
  GatewayBed bed;
  int port = 0;
  TextWorkers text;
  std::unique_ptr<api::HttpServer> http;

  explicit BareFront(gateway::GatewayConfig config = GatewayBed::Config()) : bed(std::move(config)) {
    const auto fd = api::ListenTcp("127.0.0.1:0");
    port = api::PortOf(*fd);
    http = std::move(
        *api::HttpServer::StartAsync(*fd, InferenceFront(*bed.server, text), InferenceLimits(*bed.server)));
  }
  base::Fd Send(const std::string& head, const std::string& body = "") const {
    base::Fd client(socket(AF_INET, SOCK_STREAM, 0));
    // Who waits for an answer that never comes fails instead.
    const timeval patience{20, 0};
    setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    const std::string bytes = head + "Host: x\r\nConnection: close\r\n\r\n" + body;
    EXPECT_EQ(send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    return client;
  }
};

gateway::ModelCard ProgramWithOutputs(int64_t outputs) {
  gateway::ModelCard card;
  card.name = "program";
  card.inputs = {{"x", gateway::DataType::kU8, {1, 8}}};
  card.outputs = {{"y", gateway::DataType::kU8, {1, outputs}}};
  return card;
}

TEST(InferenceFront, AnAnswerIsNeverCutByAnotherExecutorsCard) {
  BareFront front;
  const auto join = [&](const std::string& name, int64_t outputs) {
    auto program =
        gateway::ProgramSlice::Join({{front.bed.executors_path()}, name, ProgramWithOutputs(outputs)});
    EXPECT_TRUE(program) << program.error().message;
    return program;
  };
  auto first = std::make_unique<gateway::ProgramSlice>(std::move(*join("first", 4096)));
  front.bed.Until([](gateway::Server& server) { return !server.Models()->empty(); });
  const std::string body =
      R"({"inputs": [{"name": "x", "datatype": "UINT8", "shape": [1, 8], "data": [1, 2, 3, 4, 5, 6, 7, 8]}]})";
  const auto client = front.Send(
      fmt::format("POST /v2/models/program/infer HTTP/1.1\r\nContent-Length: {}\r\n", body.size()), body);
  ASSERT_TRUE(first->Take(std::chrono::seconds(20)).value());
  first.reset();
  front.bed.Until([](gateway::Server& server) { return server.counts().executors == 0; });
  // Another version of the program takes its place, with another output: the request has its first card.
  auto second = join("second", 8);
  if (auto taken = second->Take(std::chrono::milliseconds(200)).value()) {
    const std::vector<std::byte> outputs(8);
    EXPECT_TRUE(second->Answer(outputs));
  }
  const std::string answer = FrontBed::ReadAll(client);
  EXPECT_EQ(StatusOf(answer), "404") << answer;
}

// Four Python clients with the default window, which they open whether or not they ask.
TEST(InferenceFront, WindowsDoNotUseUpTheMemoryForRequests) {
  FrontBed bed(256 << 20);
  std::vector<gateway::Client> clients;
  for (int i = 0; i < 4; i++) {
    auto client = bed.Dial();
    ASSERT_TRUE(client);
    if (!client->OpenWindow(64 << 20)) break;  // refused: there is a limit of its own
    clients.push_back(std::move(*client));
  }
  EXPECT_GE(clients.size(), 1u);
  EXPECT_EQ(StatusOf(FrontBed::ReadAll(bed.Ask())), "200");
}

// Bodies that have begun and do not end use up the memory for bodies: of it, too, a part is each tenant's.
TEST(InferenceFront, OneTenantsHalfSentBodiesLeaveTheOthersRoom) {
  gateway::GatewayConfig config = GatewayBed::Config();
  config.broker.memory = 8 << 20;
  config.broker.tenants[1].reserve = 2 << 20;  // Bob's
  FrontBed bed(std::move(config));
  std::vector<base::Fd> half;
  const std::string piece(1 << 20, ' ');
  // Alice's, until she is refused.
  bool refused = false;
  for (int i = 0; i < 40 && !refused; i++) {
    half.push_back(bed.Connect());
    bed.Send(half.back(),
             "POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n" + piece);
    refused = bed.IsAnsweredWithin(half.back(), std::chrono::milliseconds(200));
  }
  ASSERT_TRUE(refused);
  base::Fd bob = bed.Connect();
  const std::string body(3 << 19, ' ');
  bed.Send(bob, fmt::format("POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                            "Authorization: Bearer bobs-token\r\nContent-Length: {}\r\n\r\n",
                            body.size()) +
                    body);
  EXPECT_THAT(FrontBed::ReadAll(bob), HasSubstr("HTTP/1.1 400")) << "read, and no JSON";
}

TEST(InferenceFront, AWrongTokenIsRefusedBeforeTheBodyIsRead) {
  BareFront front;
  auto program = gateway::ProgramSlice::Join({{front.bed.executors_path()}, "first", ProgramWithOutputs(8)});
  ASSERT_TRUE(program);
  front.bed.Until([](gateway::Server& server) { return !server.Models()->empty(); });
  // A body is announced, and none sent: it is too large to be dropped first, or its client waits.
  for (const char* body : {"Content-Length: 16000000", "Content-Length: 60000\r\nExpect: 100-continue"}) {
    const auto client = front.Send(
        std::string("POST /v2/models/program/infer HTTP/1.1\r\nAuthorization: Bearer wrong-token\r\n") +
        body + "\r\n");
    EXPECT_EQ(StatusOf(FrontBed::ReadAll(client)), "401") << body;
  }
}

TEST(InferenceFront, ListsModelsToTenantsAlone) {
  gateway::GatewayConfig config = GatewayBed::Config();
  config.tokens[0] = "alices-token";
  BareFront front(std::move(config));
  const auto index = [&](const std::string& body, const std::string& token = "bobs-token") {
    return FrontBed::ReadAll(front.Send(
        fmt::format(
            "POST /v2/repository/index HTTP/1.1\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n", token,
            body.size()),
        body));
  };
  EXPECT_THAT(index(""), EndsWith("\r\n\r\n[]"));
  std::optional<gateway::ProgramSlice> program(
      gateway::ProgramSlice::Join({{front.bed.executors_path()}, "first", ProgramWithOutputs(8)}).value());
  front.bed.Until([](gateway::Server& server) { return server.IsReady(); });
  const std::string ready = R"([{"name":"program","reason":"","state":"READY","version":"1"}])";
  EXPECT_THAT(index(""), EndsWith(ready));
  EXPECT_THAT(index(R"({"ready": true})"), EndsWith(ready));
  EXPECT_EQ(StatusOf(index("", "wrong-token")), "401");
  EXPECT_EQ(StatusOf(index(R"({"ready": 1})")), "400");
  EXPECT_EQ(StatusOf(index(std::string(5000, ' '))), "413");
  EXPECT_EQ(StatusOf(FrontBed::ReadAll(front.Send("GET /v2/repository/index HTTP/1.1\r\n"))), "405");
  program.reset();
  front.bed.Until([](gateway::Server& server) { return !server.IsReady(); });
  EXPECT_THAT(index(""), HasSubstr(R"("state":"UNAVAILABLE")"));
  EXPECT_THAT(index(R"({"ready": true})"), EndsWith("\r\n\r\n[]"));
}

TEST(InferenceFront, WhatIsRefusedBeforeItIsQueuedIsCountedByReason) {
  BareFront front;
  auto program = gateway::ProgramSlice::Join({{front.bed.executors_path()}, "first", ProgramWithOutputs(8)});
  ASSERT_TRUE(program);
  front.bed.Until([](gateway::Server& server) { return !server.Models()->empty(); });
  const auto post = [&](const std::string& model, const std::string& token, const std::string& body) {
    const std::string shown = token.empty() ? "" : "Authorization: Bearer " + token + "\r\n";
    (void)FrontBed::ReadAll(
        front.Send(fmt::format("POST /v2/models/{}/infer HTTP/1.1\r\n{}Content-Length: {}\r\n", model, shown,
                               body.size()),
                   body));
  };
  post("program", "wrong-token", "{}");
  post("none", "", "{}");
  post("none", "", "{}");
  post("program", "", "{}");
  (void)FrontBed::ReadAll(front.Send("GET /v2/health/live HTTP/1.1\r\nContent-Length: 16000000\r\n"));
  EXPECT_FALSE(front.bed.Dial()->Describe("none"));
  EXPECT_FALSE(front.bed.Dial("bob", "wrong-token"));
  const std::string text = FrontBed::ReadAll(front.Send("GET /metrics HTTP/1.1\r\n"));
  for (const auto& [front_word, reason, count] : {std::tuple("http", "denied", 1),
                                                  {"http", "no_model", 2},
                                                  {"http", "bad_request", 1},
                                                  {"http", "too_large", 1},
                                                  {"http", "busy", 0},
                                                  {"frames", "denied", 1},
                                                  {"frames", "no_model", 1},
                                                  {"frames", "bad_request", 0}})
    EXPECT_THAT(text, HasSubstr(fmt::format(
                          "spillway_gateway_requests_refused_total{{front=\"{}\",reason=\"{}\"}} {}\n",
                          front_word, reason, count)));
}

// libmicrohttpd's time-out of silence begins anew with each byte; limits.receive does not.
TEST(InferenceFront, ARequestThatTricklesInIsCut) {
  gateway::GatewayConfig config = GatewayBed::Config();
  config.receive = std::chrono::milliseconds(300);
  const BareFront front(std::move(config));
  const auto client = front.Send("POST /v2/models/program/infer HTTP/1.1\r\nContent-Length: 60000\r\n");
  bool cut = false;
  for (int sent = 0; sent < 1000 && !cut; sent++) {
    cut = send(client.get(), " ", 1, MSG_NOSIGNAL) <= 0;
    char byte;
    if (FrontBed::IsAnsweredWithin(client, std::chrono::milliseconds(20)))
      cut = recv(client.get(), &byte, 1, 0) <= 0;
  }
  EXPECT_TRUE(cut);
}

TEST(InferenceFront, LargeJsonKeepsNobodyElseWaiting) {
  FrontBed bed(64 << 20);
  std::promise<void> go_on;
  bed.text().Do(0, TextWorkers::Kind::kRequest, [&] { go_on.get_future().wait(); });
  const auto large_in = bed.AskInJson(kRows), large_out = bed.Ask(true);
  EXPECT_EQ(StatusOf(FrontBed::ReadAll(bed.AskInJson(1))), "200");
  EXPECT_EQ(StatusOf(FrontBed::ReadAll(bed.Ask())), "200");
  EXPECT_FALSE(FrontBed::IsAnsweredWithin(large_in, std::chrono::milliseconds(0)));
  EXPECT_FALSE(FrontBed::IsAnsweredWithin(large_out, std::chrono::milliseconds(0)));
  go_on.set_value();
  const std::string in = FrontBed::ReadAll(large_in), out = FrontBed::ReadAll(large_out);
  EXPECT_EQ(StatusOf(in), "200");
  EXPECT_EQ(in.substr(in.size() - kBytes), std::string(kBytes, '\0'));
  EXPECT_EQ(StatusOf(out), "200");
}

TEST(InferenceFront, WhatIsStillReadIsAnsweredBeforeTheGatewayEnds) {
  FrontBed bed(64 << 20);
  std::promise<void> go_on;
  bed.text().Do(0, TextWorkers::Kind::kRequest, [&] { go_on.get_future().wait(); });
  const auto client = bed.AskInJson(kRows);
  bed.UntilTaken();
  bed.Drain();
  EXPECT_EQ(StatusOf(FrontBed::ReadAll(bed.AskInJson(1))), "503") << "it came later";
  go_on.set_value();
  EXPECT_EQ(StatusOf(FrontBed::ReadAll(client)), "200");
}

TEST(InferenceFront, WhatCanNeverFitIsNotToldToComeAgain) {
  FrontBed bed(2 * kBytes - 1);
  const std::string refused = FrontBed::ReadAll(bed.Ask());
  ASSERT_EQ(StatusOf(refused), "413");
  EXPECT_THAT(refused, Not(HasSubstr("Retry-After")));
  EXPECT_THAT(refused, HasSubstr(fmt::format("{} bytes of inputs and ", kBytes)));
  EXPECT_THAT(refused, HasSubstr(fmt::format("limits.memory, {} bytes", 2 * kBytes - 1)));
}

}  // namespace
}  // namespace spillway::gateway
