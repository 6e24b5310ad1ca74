// SPDX-License-Identifier: Apache-2.0
// The gateway's loop with real sockets, windows and executors, all in this process; over epoll and over
// io_uring.
#include "gateway/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <numeric>

#include "frames.h"
#include "gateway/executor/program_slice.h"
#include "gateway_bed.h"
#include "model_specs.h"
#include "served.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

struct Way {
  Io io;
  Duration spin;
};

class ServerOver : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    GatewayBed::io = GetParam().io;
    GatewayBed::spin = GetParam().spin;
    if (GetParam().io != Io::kUring) return;
    if (const auto uring = MakeUringReactor(); !uring) GTEST_SKIP() << uring.error().message;
  }
  void TearDown() override {
    GatewayBed::io = GatewayConfig().io;
    GatewayBed::spin = GatewayConfig().spin;
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, ServerOver,
                         testing::Values(Way{Io::kEpoll, 200us}, Way{Io::kUring, 200us},
                                         Way{Io::kUring, 0us}),
                         [](const auto& way) {
                           return std::string(way.param.io == Io::kUring ? "uring" : "epoll") +
                                  (way.param.spin == 0us ? "_asleep" : "");
                         });

TEST_P(ServerOver, AnswersOverTcpAndUnix) {
  Served served;
  for (const bool tcp : {false, true}) {
    auto client = served.bed.Dial("alice", "", tcp);
    ASSERT_TRUE(client) << client.error().message;
    const auto model = client->Describe("echo");
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_TRUE(model->ready);
    for (const uint32_t rows : {1u, 2u, 2048u}) {
      const auto input = Pattern(rows * 64, static_cast<int>(rows));
      const auto result = client->Infer(model->index, rows, input);
      ASSERT_TRUE(result) << result.error().message;
      EXPECT_EQ(result->status, Status::kOk) << result->message;
      EXPECT_EQ(result->outputs, input);
    }
  }
}

TEST_P(ServerOver, AnswersThroughAWindowWithoutACopyOnTheClientsSide) {
  Served served;
  auto client = served.bed.Dial();
  ASSERT_TRUE(client);
  const auto model = client->Describe("echo");
  ASSERT_TRUE(client->OpenWindow(1 << 20, 8));
  const auto in = client->Allocate(64 << 10), out = client->Allocate(64 << 10);
  ASSERT_TRUE(in && out);
  for (int round = 0; round < 20; round++) {
    const auto input = Pattern(64 << 10, round);
    std::memcpy(client->window().data() + *in, input.data(), input.size());
    const auto result = client->InferInWindow(model->index, 1024, *in, 64 << 10, *out, 64 << 10);
    ASSERT_TRUE(result) << result.error().message;
    ASSERT_EQ(result->status, Status::kOk) << result->message;
    EXPECT_EQ(std::memcmp(client->window().data() + *out, input.data(), input.size()), 0);
  }
}

TEST_P(ServerOver, ManyAtOnceThroughAWindowAreAllAnswered) {
  Served served;
  auto client = served.bed.Dial();
  const auto model = client->Describe("echo");
  ASSERT_TRUE(client->OpenWindow(64 * 128, 64));
  std::vector<int> answers(500, 0);
  uint64_t asked = 0, answered = 0;
  while (answered < answers.size()) {
    Submission submission;
    submission.id = asked;
    submission.input_offset = (asked % 64) * 128;
    submission.input_bytes = 64;
    submission.output_offset = submission.input_offset + 64;
    submission.output_bytes = 64;
    submission.model = model->index;
    if (asked < answers.size() && client->Submit(submission)) {
      asked++;
      continue;
    }
    const auto completion = client->Wait(60s);
    ASSERT_TRUE(completion && *completion);
    EXPECT_EQ((*completion)->status, 0u);
    answers[(*completion)->id]++;
    answered++;
  }
  EXPECT_THAT(answers, testing::Each(1));
}

TEST_P(ServerOver, TheIoThatWasAskedForServes) {
  const GatewayBed bed;
  EXPECT_STREQ(bed.server->io(), GetParam().io == Io::kUring ? "io_uring" : "epoll");
}

// As in containers, whose filter refuses io_uring. The filter is this one thread's.
TEST(Io, WhereTheKernelRefusesUringEpollServes) {
  std::thread([] {
    sock_filter refuse[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{std::size(refuse), refuse};
    ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    EXPECT_EQ(MakeUringReactor().error().code, ErrorCode::kUnavailable);
    for (const Io io : {Io::kAuto, Io::kUring}) {
      const auto reactor = MakeReactor(io);
      ASSERT_TRUE(reactor);
      EXPECT_STREQ((*reactor)->name(), "epoll");
    }
  }).join();
}

// Some larger than what is read ahead, most far smaller.
uint32_t RowsOf(uint64_t id) { return id % 40 == 0 ? 2048 : 1 + static_cast<uint32_t>(id % 3); }

TEST_P(ServerOver, SmallFramesSentAtOnceAndLargeOnesInPiecesAreEachAnsweredOnceAndInOrder) {
  Served served;
  auto client = served.bed.Dial("alice", "", true);
  const auto model = client->Describe("echo");
  std::string bytes;
  for (uint64_t id = 1; id <= 200; id++) {
    const uint32_t rows = RowsOf(id);
    bytes += DescribeFrame(1000 + id, "echo");
    bytes += InferFrame(id, std::string(rows * 64, static_cast<char>('a' + id % 26)), rows, model->index);
  }
  // In pieces of sizes that fall on no frame's edge.
  auto sent = std::async(std::launch::async, [&] {
    for (size_t at = 0, step = 1; at < bytes.size(); at += step, step = step * 3 % 20011) {
      step = std::min(step, bytes.size() - at);
      EXPECT_EQ(send(client->socket(), bytes.data() + at, step, MSG_NOSIGNAL), static_cast<ssize_t>(step));
    }
  });
  std::vector<uint64_t> results, descriptions;  // ids, as they come
  for (int i = 0; i < 400; i++) {
    const Frame frame = ReceiveFrame(client->socket());
    const uint64_t id = frame.header.id;
    if (frame.Is(FrameType::kModel)) {
      descriptions.push_back(id - 1000);
      continue;
    }
    ASSERT_TRUE(frame.Is(FrameType::kResult)) << frame.meta;
    results.push_back(id);
    EXPECT_EQ(frame.data, std::string(RowsOf(id) * 64u, static_cast<char>('a' + id % 26)));
  }
  sent.get();
  // One slice, which takes requests in their order. Descriptions do not wait for results.
  std::vector<uint64_t> expected(200);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(results, expected);
  EXPECT_EQ(descriptions, expected);
}

// That nothing more is read of it meanwhile, session_test.cc asks of the session.
TEST_P(ServerOver, AClientThatReadsNothingForLongGetsAllInTheEnd) {
  Served served;
  auto client = served.bed.Dial();
  const auto model = client->Describe("echo");
  constexpr size_t kBytes = 2048 * 64;
  constexpr uint64_t kRequests = 150;  // more than the sockets and what may wait unread hold
  auto sent = std::async(std::launch::async, [&] {
    const std::string data(kBytes, 'x');
    // One after the other: requests at hand are answered, whoever reads.
    for (uint64_t id = 1; id <= kRequests; id++) {
      EXPECT_TRUE(SendWhole(client->socket(), InferFrame(id, data, 2048, model->index)));
      served.bed.Until([&](Server& server) { return server.broker().counts().answers[0][0] >= id; });
    }
  });
  served.bed.Until([](Server& server) { return server.broker().memory_held() >= 8 << 20; });
  // Others are served meanwhile.
  auto other = served.bed.Dial("bob", "bobs-token");
  EXPECT_EQ(other->Infer(model->index, 1, Pattern(64))->status, Status::kOk);
  for (uint64_t i = 0; i < kRequests; i++) {
    const Frame answer = ReceiveFrame(client->socket());
    ASSERT_TRUE(answer.Is(FrameType::kResult)) << answer.meta;
  }
  sent.get();
}

// Until the gateway has taken all that was sent, and has done with it what it does at once.
void UntilRead(GatewayBed& bed, int socket) {
  for (int left = 1; left != 0; std::this_thread::yield()) ASSERT_EQ(ioctl(socket, SIOCOUTQ, &left), 0);
  bed.Ask([](Server&) { return 0; });
}

TEST_P(ServerOver, AClosingClientsRingKeepsNobodyWaiting) {
  Served served;
  auto client = served.bed.Dial();
  ASSERT_TRUE(client && client->OpenWindow(4096));
  // Answers that it does not read, more than its socket holds; then what ends the session once they are sent.
  std::string bytes;
  for (int i = 0; i < 10'000; i++) bytes += DescribeFrame(0, "echo");
  bytes += HelloFrame();
  ASSERT_TRUE(SendWhole(client->socket(), bytes));
  UntilRead(served.bed, client->socket());
  ASSERT_TRUE(client->Submit({}));
  auto asked = std::async(std::launch::async, [&] {
    auto other = served.bed.Dial();
    return other && other->Describe("echo");
  });
  const bool served_too = asked.wait_for(60s) == std::future_status::ready;
  EXPECT_TRUE(served_too) << "the gateway looks at nothing but the ring";
  if (!served_too) served.bed.End();
  EXPECT_EQ(asked.get(), served_too);
}

TEST_P(ServerOver, AnswersThatWaitToBeSentCountAsMemoryUntilTheyAre) {
  constexpr uint64_t kBytes = 2048 * 64, kRequests = 60;  // fewer than reading would stop for
  GatewayConfig config = GatewayBed::Config();
  config.broker.memory = (4 << 20) + (100 << 10);
  Served served(config);
  auto client = served.bed.Dial();
  const auto model = client->Describe("echo");
  // One after the other: what is at hand counts with its inputs as well.
  for (uint64_t id = 1; id <= kRequests; id++) {
    ASSERT_TRUE(SendWhole(client->socket(), InferFrame(id, std::string(kBytes, 'x'), 2048, model->index)));
    UntilRead(served.bed, client->socket());
    served.bed.Until(
        [](Server& server) { return server.broker().running() == 0 && server.broker().queued() == 0; });
  }
  const uint64_t held = served.bed.Ask([](Server& server) { return server.broker().memory_held(); });
  EXPECT_GT(held, config.broker.memory - 3 * kBytes) << "room for one more request";
  EXPECT_LE(held, config.broker.memory);
  uint64_t answered = 0, busy = 0;
  for (uint64_t i = 0; i < kRequests; i++) {
    const Frame answer = ReceiveFrame(client->socket());
    answered += answer.Is(FrameType::kResult);
    busy += answer.header.status == static_cast<uint16_t>(Status::kBusy);
  }
  EXPECT_EQ(answered + busy, kRequests);
  EXPECT_GT(busy, 0u);
  served.bed.Until([](Server& server) { return server.broker().memory_held() == 0; });
  EXPECT_EQ(client->Infer(model->index, 1, Pattern(64))->status, Status::kOk);
}

TEST_P(ServerOver, ManyClientsThatComeAskTogetherAndLeaveAreAllAnswered) {
  Served served;
  for (int round = 0; round < 3; round++) {
    std::vector<Client> clients;
    for (size_t i = 0; i < 120; i++) {
      auto client = served.bed.Dial("alice", "", i % 2 == 0);
      ASSERT_TRUE(client) << client.error().message;
      clients.push_back(std::move(*client));
    }
    const auto letter = [](size_t i) { return std::string(64, static_cast<char>('a' + i % 26)); };
    for (size_t i = 0; i < clients.size(); i++) {
      ASSERT_TRUE(SendWhole(clients[i].socket(), InferFrame(i, letter(i))));
      // Every tenth goes without waiting for its answer: its descriptor's number is soon another's.
      if (i % 10 == 9) clients[i] = std::move(*served.bed.Dial());
    }
    for (size_t i = 0; i < clients.size(); i++) {
      if (i % 10 == 9) continue;
      const Frame answer = ReceiveFrame(clients[i].socket());
      ASSERT_TRUE(answer.Is(FrameType::kResult)) << answer.meta;
      EXPECT_EQ(answer.header.id, i);
      EXPECT_EQ(answer.data, letter(i));
    }
  }
  served.bed.Until([](Server& server) { return server.counts().sessions == 0; });
  served.bed.Until([](Server& server) { return server.broker().memory_held() == 0; });
}

TEST_P(ServerOver, AnotherClientsWindowCannotBeNamed) {
  Served served;
  auto alice = served.bed.Dial();
  auto bob = served.bed.Dial("bob", "bobs-token");
  ASSERT_TRUE(alice && bob);
  const auto model = alice->Describe("echo");
  ASSERT_TRUE(alice->OpenWindow(4096) && bob->OpenWindow(4096));
  // Bob's library would say his own key: a raw channel says Alice's.
  const auto result = bob->InferInWindow(model->index, 1, 4096 - 32, 64, 0, 64);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, Status::kDenied) << "beyond his window";
  EXPECT_NE(alice->key(), bob->key());
  served.bed.Ask([&](Server& server) {
    EXPECT_EQ(server.broker().counts().answers[1][0], 0u);
    return 0;
  });
}

TEST_P(ServerOver, WrongTokensAndStrangersAreShown) {
  Served served;
  EXPECT_THAT(served.bed.Dial("bob", "wrong").error().message, HasSubstr("no such tenant, or not its token"));
  EXPECT_THAT(served.bed.Dial("carol").error().message, HasSubstr("no such tenant"));
  auto client = served.bed.Dial();
  EXPECT_THAT(client->Describe("other").error().message, HasSubstr("no executor has a model other"));
}

TEST_P(ServerOver, BadRequestsGetTheirErrorAndTheConnectionGoesOn) {
  Served served;
  auto client = served.bed.Dial();
  const auto model = client->Describe("echo");
  const auto input = Pattern(64);
  EXPECT_EQ(client->Infer(99, 1, input)->status, Status::kNoModel);
  EXPECT_EQ(client->Infer(model->index, 2, input)->status, Status::kBadRequest);
  EXPECT_EQ(client->Infer(model->index, 0, input)->status, Status::kBadRequest);
  EXPECT_EQ(client->Infer(model->index, 1, {})->status, Status::kBadRequest);
  EXPECT_EQ(client->Infer(model->index, 1, input)->status, Status::kOk);
}

Descriptor DialRaw(const GatewayBed& bed, Descriptor socket = Descriptor(::socket(AF_UNIX, SOCK_STREAM, 0))) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, bed.frames_path().c_str());
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return socket;
}

// What a peer without manners sends, and what comes back until the gateway closes.
std::string Raw(const GatewayBed& bed, const std::string& bytes) {
  const Descriptor socket = DialRaw(bed);
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
  std::vector<Descriptor> clients(3);
  const timeval patience{60, 0};
  for (Descriptor& client : clients) {
    client = Descriptor(::socket(AF_UNIX, SOCK_STREAM, 0));
    setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(clients[0].get());  // the lowest number that is free
  close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (Descriptor& client : clients) client = DialRaw(bed, std::move(client));
  bed.Ask([](Server&) { return 0; });  // of what comes together, either may be told first
  const auto sessions = bed.Ask([](Server& server) { return server.counts().sessions; });
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(sessions, 0u);
  // Nobody else comes, who would have those before him accepted too.
  for (const Descriptor& client : clients) {
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
              HasSubstr("frame of type 99 is none"));
  // Every way to cut a good request short.
  const std::string whole = HelloFrame() + InferFrame(1, std::string(64, 'x'), 1, model->index);
  for (size_t cut = 1; cut < whole.size(); cut += 3) Raw(served.bed, whole.substr(0, cut));
  EXPECT_EQ(bystander->Infer(model->index, 1, Pattern(64))->status, Status::kOk);
  served.bed.Until([](Server& server) { return server.counts().sessions == 1; });
  EXPECT_EQ(served.bed.Ask([](Server& server) { return server.broker().memory_held(); }), 0u);
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
  EXPECT_EQ(result->message,
            "512 bytes of inputs and 512 of outputs are more than limits.memory, 1000 bytes");
  const auto window = client->OpenWindow(4096, 8);
  ASSERT_FALSE(window);
  EXPECT_THAT(window.error().message,
              HasSubstr("a window of 4096 bytes is more than limits.windows, 1000 bytes"));
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
    warned.push_back(log.str().find("executor host: model program: requests of 4 rows") != std::string::npos);
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
  EXPECT_THAT(ran.error().message, HasSubstr("the gateway refused: an executor named host is there already"));
  close(stop);
}

TEST_P(ServerOver, AnExecutorAtAnythingElsesSocketSaysSo) {
  Served served;
  const std::string path = (served.bed.folder / "other").string();
  const auto other = api::ListenUnix(path, SOCK_SEQPACKET);
  Descriptor peer;
  std::thread answers([&] {
    while (!peer) peer = Descriptor(accept(other->fd, nullptr, nullptr));
    send(peer.get(), "hello", 5, 0);
  });
  ExecutorOptions options = served.bed.Executor("host");
  options.gateway.address = path;
  const auto joined = Executor(options, *served.engine).Join();
  answers.join();
  close(other->fd);
  ASSERT_FALSE(joined);
  EXPECT_THAT(joined.error().message, HasSubstr("expected a gateway, got another answer"));
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
