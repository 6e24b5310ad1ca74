// SPDX-License-Identifier: Apache-2.0
// The gateway's loop with real sockets, windows and executors, all in this process.
#include "gateway/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstring>
#include <future>
#include <latch>
#include <numeric>

#include "frames.h"
#include "gateway/executor/program_slice.h"
#include "model_specs.h"
#include "served.h"
#include "server_over.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Ways, ServerOver, testing::Values(200us, 0us),
                         [](const auto& spin) { return spin.param == 0us ? "asleep" : "awake"; });

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

// To free a gigabyte takes 0.2 s.
TEST_P(ServerOver, WhileAWindowsMemoryIsBeingFreedOthersAreServedAndItsPartIsNobodys) {
  constexpr uint64_t kWhole = 64 << 10;
  GatewayConfig config = GatewayBed::Config();
  config.broker.windows = kWhole;
  Served served(std::move(config));
  const auto may_go = std::make_shared<std::latch>(1);
  const auto model = served.bed.Dial()->Describe("echo");
  {
    auto leaves = served.bed.Dial();
    ASSERT_TRUE(leaves->OpenWindow(kWhole, 8));
    served.bed.Ask([&](Server& server) {
      server.windows().Free({nullptr, [may_go](void*) { may_go->wait(); }}, nullptr);
      return 0;
    });
  }
  served.bed.Until([](Server& server) { return server.counts().sessions == 0; });
  auto comes = std::async(std::launch::async, [&] {
    auto client = served.bed.Dial();
    const auto opened = client->OpenWindow(kWhole, 8);
    return opened ? "" : opened.error().message;
  });
  auto other = served.bed.Dial("bob", "bobs-token");
  for (int i = 0; i < 10; i++) EXPECT_EQ(other->Infer(model->index, 1, Pattern(64))->status, Status::kOk);
  EXPECT_EQ(served.bed.Ask([](Server& server) { return server.broker().windows_held(); }), kWhole);
  may_go->count_down();
  EXPECT_EQ(comes.get(), "") << "it waits, and is not refused";
  served.bed.Until([](Server& server) { return server.broker().windows_held() == 0; });
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
  EXPECT_THAT(served.bed.Dial("bob", "wrong").error().message, HasSubstr("no such tenant, or wrong token"));
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

}  // namespace
}  // namespace spillway::gateway
