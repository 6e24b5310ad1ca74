// SPDX-License-Identifier: Apache-2.0
// What the gateway does with peers that break the rules, with full memory, and when a side dies.
#include "gateway/server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "base/fd.h"
#include "frames.h"
#include "gateway/executor/program_slice.h"
#include "gateway/transport/shm/window.h"
#include "model_specs.h"
#include "served.h"
#include "server_over.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

base::Fd DialRaw(const GatewayBed& bed, base::Fd socket = base::Fd(::socket(AF_UNIX, SOCK_STREAM, 0))) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  bed.frames_path().copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return socket;
}

// What a peer without manners sends, and what comes back until the gateway closes.
std::string Raw(const GatewayBed& bed, const std::string& bytes) {
  const base::Fd socket = DialRaw(bed);
  EXPECT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  shutdown(socket.get(), SHUT_WR);
  std::string got;
  char buffer[4096];
  for (ssize_t n; (n = recv(socket.get(), buffer, sizeof(buffer), 0)) > 0 || (n < 0 && errno == EINTR);)
    got.append(buffer, static_cast<size_t>(std::max<ssize_t>(n, 0)));
  return got;
}

TEST_P(ServerOver, WhoCameWhileDescriptorsWereShortIsServedOnceTheyAreNot) {
  GatewayBed bed;
  std::vector<base::Fd> clients(3);
  const timeval patience{60, 0};
  for (base::Fd& client : clients) {
    client = base::Fd(::socket(AF_UNIX, SOCK_STREAM, 0));
    setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(clients[0].get());  // the lowest number that is free
  close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (base::Fd& client : clients) client = DialRaw(bed, std::move(client));
  bed.Ask([](Server&) { return 0; });  // of what comes together, either may be told first
  const auto sessions = bed.Ask([](Server& server) { return server.counts().sessions; });
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(sessions, 0u);
  // Nobody else comes, who would have those before him accepted too.
  for (const base::Fd& client : clients) {
    ASSERT_TRUE(SendWhole(client.get(), HelloFrame()));
    EXPECT_TRUE(ReceiveFrame(client.get()).Is(FrameType::kWelcome));
  }
}

TEST_P(ServerOver, MalformedAndTruncatedFramesEndTheirConnectionAlone) {
  Served served;
  auto bystander = served.bed.Dial();
  const auto model = bystander->Describe("echo");
  EXPECT_THAT(Raw(served.bed, "GET / HTTP/1.1\r\nHost: x\r\n\r\n........"), HasSubstr("not a frame"));
  FrameHeader header;
  header.type = static_cast<uint8_t>(FrameType::kInfer);
  header.data_bytes = uint64_t{1} << 60;
  EXPECT_THAT(Raw(served.bed, HelloFrame() + EncodeFrame(header, "")), HasSubstr("expected at most 1048576"));
  header.data_bytes = 64;
  EXPECT_THAT(Raw(served.bed, EncodeFrame(header, "")), HasSubstr("expected a hello first"));
  header.type = 99;
  header.data_bytes = 0;
  EXPECT_THAT(Raw(served.bed, HelloFrame() + EncodeFrame(header, "meta") + EncodeFrame(header, "")),
              HasSubstr("unexpected frame type 99"));
  // Every way to cut a good request short.
  const std::string whole = HelloFrame() + InferFrame(1, std::string(64, 'x'), 1, model->index);
  for (size_t cut = 1; cut < whole.size(); cut += 3) Raw(served.bed, whole.substr(0, cut));
  EXPECT_EQ(bystander->Infer(model->index, 1, Pattern(64))->status, Status::kOk);
  served.bed.Until([](Server& server) { return server.counts().sessions == 1; });
  EXPECT_EQ(served.bed.Ask([](Server& server) { return server.broker().memory_held(); }), 0u);
}

TEST_P(ServerOver, WhoSaysNoHelloKeepsNobodyOut) {
  GatewayConfig config = GatewayBed::Config();
  config.connections = 40;
  Served served(config);
  auto known = served.bed.Dial();
  std::vector<base::Fd> strangers;
  for (int i = 0; i < 60; i++) strangers.push_back(DialRaw(served.bed));
  auto late = served.bed.Dial();
  const auto model = late->Describe("echo");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(known->Infer(model->index, 1, Pattern(64))->status, Status::kOk);
  char none;
  EXPECT_EQ(recv(strangers.front().get(), &none, 1, 0), 0) << "the one that came first goes first";
}

TEST_P(ServerOver, TenantsLeaveOthersTheirPartOfTheConnections) {
  GatewayConfig config = GatewayBed::Config();
  config.broker.tenants.push_back({"carol"});
  config.tokens.push_back("");
  config.connections = 36;  // six of which are each one's own
  Served served(config);
  std::vector<Result<Client>> clients;
  const auto connect = [&](const std::string& tenant, const std::string& token, int count) {
    for (int i = 0; i < count; i++) {
      clients.push_back(served.bed.Dial(tenant, token));
      ASSERT_TRUE(clients.back()) << tenant << " " << i << ": " << clients.back().error().message;
    }
  };
  const auto expect_refused = [&](const std::string& tenant, const std::string& token) {
    const auto further = served.bed.Dial(tenant, token);
    ASSERT_FALSE(further);
    EXPECT_THAT(further.error().message,
                HasSubstr("tenant " + tenant + " has all connections that others leave it"));
  };
  connect("alice", "", 20);
  connect("bob", "bobs-token", 10);
  expect_refused("alice", "");
  expect_refused("bob", "bobs-token");
  connect("carol", "", 6);
  clients.pop_back();
  served.bed.Until([](Server& server) { return server.counts().sessions == 35; });
  expect_refused("alice", "");
  connect("carol", "", 1);
}

// Descriptors that both sides have, an eventfd among them, have their flags in common.
TEST_P(ServerOver, AWindowsClientThatNeverHushesItsBellHoldsUpNobody) {
  Served served;
  auto bystander = served.bed.Dial();
  const auto model = bystander->Describe("echo");
  const base::Fd socket = DialRaw(served.bed);
  ASSERT_TRUE(SendWhole(socket.get(), HelloFrame()));
  ASSERT_TRUE(ReceiveFrame(socket.get()).Is(FrameType::kWelcome));
  FrameHeader header;
  header.type = static_cast<uint8_t>(FrameType::kOpenWindow);
  WindowMeta window;
  window.bytes = 4096;
  window.slots = 16;
  ASSERT_TRUE(SendWhole(socket.get(), EncodeFrame(header, MetaBytes(window))));
  std::array<std::byte, sizeof(FrameHeader) + sizeof(WindowMeta)> frame;
  auto sent = ReceiveWithDescriptors(socket.get(), frame);
  ASSERT_TRUE(sent);
  ASSERT_EQ(sent->fds.size(), 4u);
  for (const base::Fd& fd : sent->fds) fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
  const uint64_t full = UINT64_MAX - 1;  // of an eventfd: another ring would wait for ever
  [[maybe_unused]] const ssize_t wrote = write(sent->fds[3].get(), &full, sizeof(full));
  auto end = ShmClientWindow::Map(std::move(sent->fds), window.bytes, window.slots);
  ASSERT_TRUE(end) << end.error().message;
  for (uint64_t i = 0; i < 1000; i++) {
    Submission wrong;
    wrong.id = i;
    (*end)->PrepareToWait();  // so that the answer rings
    while (!(*end)->Submit(wrong)) std::this_thread::yield();
    Completion refused;
    while (!(*end)->TakeCompletion(refused)) std::this_thread::yield();
  }
  EXPECT_EQ(bystander->Infer(model->index, 1, Pattern(64))->status, Status::kOk);
}

TEST_P(ServerOver, FullMemoryIsBusyBeforeTheDataIsKept) {
  GatewayConfig config = GatewayBed::Config();
  config.broker.memory = 1000;
  Served served(config);
  auto client = served.bed.Dial();
  const auto model = client->Describe("echo");
  served.bed.Ask([](Server& server) { return server.broker().Hold(500), true; });
  const auto result = client->Infer(model->index, 4, Pattern(256));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, Status::kBusy);
  EXPECT_GT(result->retry_after.count(), 0);
  EXPECT_EQ(client->Infer(model->index, 1, Pattern(64))->status, Status::kOk);
  served.bed.Ask([](Server& server) { return server.broker().Release(500), true; });
  EXPECT_EQ(client->Infer(model->index, 4, Pattern(256))->status, Status::kOk);
}

TEST_P(ServerOver, WhatCanNeverFitIntoTheMemoryIsNotToldToComeAgain) {
  GatewayConfig config = GatewayBed::Config();
  config.broker.memory = 1000;
  config.broker.windows = 1000;
  Served served(config);
  auto client = served.bed.Dial();
  const auto model = client->Describe("echo");
  const auto result = client->Infer(model->index, 8, Pattern(512));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, Status::kTooLarge);
  EXPECT_EQ(result->retry_after.count(), 0);
  EXPECT_EQ(result->message, "512 bytes of inputs and 512 of outputs exceed limits.memory, 1000 bytes");
  const auto window = client->OpenWindow(4096, 8);
  ASSERT_FALSE(window);
  EXPECT_THAT(window.error().message, HasSubstr("a window of 4096 bytes exceeds limits.windows, 1000 bytes"));
  EXPECT_EQ(client->Infer(model->index, 7, Pattern(448))->status, Status::kOk);
}

// Its model's largest request: 4 rows of 8 bytes, 64 with the outputs.
TEST(Server, WarnsOfAModelWhoseLargestRequestNeverFits) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  std::vector<bool> warned;
  for (const uint64_t memory : {63, 64}) {
    GatewayConfig config = GatewayBed::Config();
    config.broker.memory = memory;
    GatewayBed bed(config);
    ASSERT_TRUE(ProgramSlice::Join({{bed.executors_path()}, "host", ProgramModel()}));
    bed.End();
    warned.push_back(
        log.str().find("executor host: model program: requests with the offered maximum of 4 rows") !=
        std::string::npos);
    log.str("");
  }
  spdlog::set_default_logger(before);
  EXPECT_EQ(warned, (std::vector{true, false}));
}

TEST_P(ServerOver, AnExecutorThatDiesWithARequestHasItPlacedAgain) {
  GatewayBed bed;
  ProgramSlice::Options options{{bed.executors_path()}, "first", ProgramModel()};
  auto first = ProgramSlice::Join(options);
  ASSERT_TRUE(first) << first.error().message;
  auto client = bed.Dial();
  const auto model = client->Describe("program");
  ASSERT_TRUE(model);
  auto asked = std::async(std::launch::async, [&] { return client->Infer(model->index, 1, Pattern(8)); });
  ASSERT_TRUE(first->Take(60s));
  options.name = "second";
  auto second = ProgramSlice::Join(options);
  ASSERT_TRUE(second) << second.error().message;
  *first = ProgramSlice();  // dies with the request in hand
  const auto taken = second->Take(60s);
  ASSERT_TRUE(taken && *taken);
  EXPECT_EQ(std::memcmp((*taken)->inputs.data(), Pattern(8).data(), 8), 0);
  ASSERT_TRUE(second->Answer(Pattern(8, 1)));
  const auto result = asked.get();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, Status::kOk) << result->message;
  EXPECT_EQ(result->outputs, Pattern(8, 1));
}

TEST_P(ServerOver, ASecondDeathIsToldAndAnExecutorsErrorPassedOn) {
  GatewayBed bed;
  ProgramSlice::Options options{{bed.executors_path()}, "program", ProgramModel()};
  auto client = bed.Dial();
  auto program = ProgramSlice::Join(options);
  ASSERT_TRUE(program);
  const auto model = client->Describe("program");
  auto asked = std::async(std::launch::async, [&] { return client->Infer(model->index, 1, Pattern(8)); });
  for (int death = 0; death < 2; death++) {
    ASSERT_TRUE(program->Take(60s));
    *program = ProgramSlice();
    bed.Until([](Server& server) { return server.counts().executors == 0; });
    program = ProgramSlice::Join(options);
    ASSERT_TRUE(program) << program.error().message;
  }
  EXPECT_EQ(asked.get()->status, Status::kExecutorLost);
  asked = std::async(std::launch::async, [&] { return client->Infer(model->index, 1, Pattern(8)); });
  ASSERT_TRUE(program->Take(60s));
  program->Refuse("out of paper");
  const auto result = asked.get();
  EXPECT_EQ(result->status, Status::kFailed);
  EXPECT_EQ(result->message, "out of paper");
}

TEST_P(ServerOver, AProgramAnswersSeveralRequestsAtOnceAndLeavesNoneWithoutAnError) {
  GatewayBed bed;
  ProgramSlice::Options options{{bed.executors_path()}, "program", ProgramModel()};
  options.cells = 2;
  auto program = ProgramSlice::Join(options);
  auto first = bed.Dial(), second = bed.Dial();
  ASSERT_TRUE(program && first && second);
  const auto model = first->Describe("program");
  const auto ask = [&](Result<Client>& client, uint8_t seed) {
    return std::async(std::launch::async,
                      [&, seed] { return client->Infer(model->index, 1, Pattern(8, seed)); });
  };
  auto one = ask(first, 1), two = ask(second, 2);
  const auto taken = program->Take(60s), another = program->TakeAnother(60s);
  ASSERT_TRUE(taken && *taken && another && *another);
  EXPECT_EQ(program->in_hand(), 2u);
  // Each its own inputs, in the order in which they were taken.
  std::vector<std::byte> outputs((*taken)->inputs.begin(), (*taken)->inputs.end());
  outputs.insert(outputs.end(), (*another)->inputs.begin(), (*another)->inputs.end());
  EXPECT_FALSE(program->Answer(std::span(outputs).first(8))) << "half of them";
  ASSERT_TRUE(program->Answer(outputs));
  EXPECT_EQ(one.get()->outputs, Pattern(8, 1));
  EXPECT_EQ(two.get()->outputs, Pattern(8, 2));
  one = ask(first, 3);
  ASSERT_TRUE(*program->Take(60s));
  ASSERT_TRUE(program->Take(0ms));
  const auto left = one.get();
  EXPECT_EQ(left->status, Status::kFailed) << "zeros, as if they were an answer";
  EXPECT_THAT(left->message, HasSubstr("without answering this one"));
}

TEST_P(ServerOver, OneTenantsDataIsGoneFromASliceBeforeAnothersComes) {
  GatewayBed bed;
  ProgramSlice::Options options{{bed.executors_path()}, "program", ProgramModel()};
  options.cells = 1;
  auto program = ProgramSlice::Join(options);
  auto alice = bed.Dial();
  auto bob = bed.Dial("bob", "bobs-token");
  ASSERT_TRUE(program && alice && bob);
  const auto model = alice->Describe("program");
  auto asked = std::async(std::launch::async,
                          [&] { return alice->Infer(model->index, 4, std::vector(32, std::byte{0xAA})); });
  ASSERT_TRUE(*program->Take(60s));
  ASSERT_TRUE(program->Answer(std::vector(32, std::byte{0xAA})));
  ASSERT_EQ(asked.get()->status, Status::kOk);
  asked = std::async(std::launch::async,
                     [&] { return bob->Infer(model->index, 1, std::vector(8, std::byte{0xBB})); });
  const auto taken = program->Take(60s);
  ASSERT_TRUE(taken && *taken);
  // The cell beyond Bob's own 8 bytes, inputs and outputs: what Alice left would be here.
  for (size_t i = 8; i < 64 + 32; i++) EXPECT_EQ((*taken)->inputs.data()[i], std::byte{0}) << i;
  program->Refuse("enough");
  asked.get();
}

TEST_P(ServerOver, WhenTheGatewayGoesClientsAndExecutorsSeeIt) {
  auto bed = std::make_unique<GatewayBed>();
  auto engine = EchoEngine();
  Executor executor(bed->Executor("host"), *engine);
  ASSERT_TRUE(executor.Join());
  auto client = bed->Dial();
  const auto model = client->Describe("echo");
  auto in_window = bed->Dial();
  ASSERT_TRUE(in_window->OpenWindow(4096));
  const int stop = eventfd(0, EFD_CLOEXEC);
  bed->End();
  EXPECT_TRUE(executor.Serve(stop)) << "the gateway's end was not noticed";
  EXPECT_TRUE(executor.Costs().empty()) << "slices are freed";
  EXPECT_EQ(client->Infer(model->index, 1, Pattern(64)).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(in_window->InferInWindow(model->index, 1, 0, 64, 64, 64).error().code, ErrorCode::kUnavailable);
  close(stop);
}

TEST_P(ServerOver, AnExecutorThatLiesIsRefusedWithTheReason) {
  GatewayBed bed;
  auto engine = EchoEngine();
  ExecutorOptions options = bed.Executor("host");
  options.slices[0].input_bytes = 100;  // the model's rows need more
  const auto joined = Executor(options, *engine).Join();
  ASSERT_FALSE(joined);
  EXPECT_THAT(joined.error().message, HasSubstr("do not fit into a cell"));
}

TEST_P(ServerOver, AnExecutorWhoseNameIsTakenEndsWithTheReason) {
  Served served;
  ExecutorOptions options = served.bed.Executor("host");
  options.retry = options.refused = std::chrono::milliseconds(1);
  const int stop = eventfd(0, EFD_CLOEXEC);
  const auto ran = Executor(options, *served.engine).Run(stop);
  ASSERT_FALSE(ran);
  EXPECT_THAT(ran.error().message,
              HasSubstr("the gateway refused: an executor named host is already connected"));
  close(stop);
}

TEST_P(ServerOver, AnExecutorAtAnythingElsesSocketSaysSo) {
  Served served;
  const std::string path = (served.bed.folder / "other").string();
  const auto other = api::ListenUnix(path, SOCK_SEQPACKET);
  base::Fd peer;
  std::thread answers([&] {
    while (!peer) peer = base::Fd(accept(other->fd, nullptr, nullptr));
    send(peer.get(), "hello", 5, 0);
  });
  ExecutorOptions options = served.bed.Executor("host");
  options.gateway.address = path;
  const auto joined = Executor(options, *served.engine).Join();
  answers.join();
  close(other->fd);
  ASSERT_FALSE(joined);
  EXPECT_THAT(joined.error().message, HasSubstr("expected a Spillway gateway's answer, got something else"));
}

TEST_P(ServerOver, WhatAClientAskedDiesWithIt) {
  GatewayBed bed;
  ProgramSlice::Options options{{bed.executors_path()}, "program", ProgramModel()};
  options.cells = 1;
  auto program = ProgramSlice::Join(options);
  auto stays = bed.Dial();
  const auto model = stays->Describe("program");
  {
    auto leaves = bed.Dial();
    ASSERT_TRUE(leaves->OpenWindow(4096));
    for (uint64_t i = 0; i < 3; i++) {
      Submission submission;
      submission.id = i;
      submission.input_bytes = submission.output_offset = submission.output_bytes = 8;
      submission.model = model->index;
      ASSERT_TRUE(leaves->Submit(submission));
    }
    ASSERT_TRUE(*program->Take(60s));
    bed.Until([](Server& server) { return server.broker().queued() == 2; });
  }
  bed.Until([](Server& server) { return server.broker().queued() == 0; });
  ASSERT_TRUE(program->Answer(Pattern(8)));
  bed.Until([](Server& server) { return server.broker().running() == 0; });
  EXPECT_EQ(bed.Ask([](Server& server) { return server.broker().counts().late_completions; }), 1u);
}

}  // namespace
}  // namespace spillway::gateway
