// SPDX-License-Identifier: Apache-2.0
// The gateway with clients whose windows are written over RDMA. Lines "measured: ..." are figures.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <future>

#include "gateway/transport/rdma/window_listener.h"
#include "remote_bed.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr uint64_t kRow = 64;

GatewayConfig WindowsConfig() {
  GatewayConfig config = GatewayBed::Config();
  config.most_request = 64 << 20;
  config.rdma.clients = DeviceAddress() + ":0";
  return config;
}

// Executors of the gateway's own machine: what is tried is the clients' way.
GatewayAddress Here(const GatewayBed& bed) { return {bed.executors_path()}; }

Result<Client> Remote(GatewayBed& bed, const std::string& tenant = "alice", const std::string& token = "") {
  return bed.Dial(tenant, token, /*tcp=*/true);
}

// What a window of so many bytes counts for, with the slots that clients ask for.
uint64_t Holds(uint64_t bytes) { return bytes + RemoteWindow::Overhead(64); }

uint64_t WindowsHeld(GatewayBed& bed) {
  return bed.Ask([](Server& server) { return server.broker().windows_held(); });
}

// An echo of so many rows by the window, checked.
void AskForEcho(Client& client, uint32_t model, uint32_t rows, uint64_t seed, uint64_t row = kRow) {
  const uint64_t bytes = rows * row;
  const auto in = client.Allocate(bytes), out = client.Allocate(bytes);
  ASSERT_TRUE(in && out);
  const auto input = Pattern(bytes, seed);
  std::memcpy(client.window().data() + *in, input.data(), bytes);
  const auto result = client.InferInWindow(model, rows, *in, bytes, *out, bytes, 30s);
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->status, Status::kOk) << result->message;
  ASSERT_EQ(result->output_bytes, bytes);
  ASSERT_EQ(std::memcmp(client.window().data() + *out, input.data(), bytes), 0) << rows << " rows";
  client.Free(*in);
  client.Free(*out);
}

// How long the gateway stays awake.
class RemoteClientOver : public testing::TestWithParam<Duration> {};
INSTANTIATE_TEST_SUITE_P(Ways, RemoteClientOver, testing::Values(200us, 0us));

TEST_P(RemoteClientOver, HasRequestsOfAllSizesAnsweredEachItsOwn) {
  GatewayConfig config = WindowsConfig();
  config.spin = GetParam();
  GatewayBed bed(config);
  const EchoExecutor executor(Here(bed), 2, 3, 1 << 20, kRow);
  AwaitExecutors(bed, 1);
  std::vector<std::future<void>> clients;
  for (uint64_t seed = 0; seed < 3; seed++)
    clients.push_back(std::async(std::launch::async, [&bed, seed] {
      auto client = Remote(bed);
      ASSERT_TRUE(client) << client.error().message;
      const auto opened = client->OpenWindow(4 << 20);
      ASSERT_TRUE(opened) << opened.error().message;
      EXPECT_EQ(client->way(), Client::Way::kRdma);
      const auto model = client->Describe("echo");
      ASSERT_TRUE(model) << model.error().message;
      std::mt19937_64 random(seed);
      for (uint64_t i = 0; i < 20; i++)
        AskForEcho(*client, model->index, static_cast<uint32_t>(i % 5 == 0 ? 16384 : 1 + random() % 1000),
                   seed * 1000 + i);
    }));
  for (auto& client : clients) client.get();
  bed.Until([](Server& server) { return server.broker().windows_held() == 0; });
}

TEST(RemoteClient, HasAsManyRequestsUnderWayAsTheWindowHasSlots) {
  GatewayBed bed(WindowsConfig());
  const EchoExecutor executor(Here(bed), 2, 3, 64 << 10, kRow);
  AwaitExecutors(bed, 1);
  auto client = Remote(bed);
  ASSERT_TRUE(client) << client.error().message;
  constexpr uint32_t kSlots = 8;
  constexpr uint64_t kBytes = 100 * kRow;
  ASSERT_TRUE(client->OpenWindow(2 * kSlots * kBytes, kSlots));
  const auto model = client->Describe("echo");
  ASSERT_TRUE(model);
  const auto submit = [&](uint64_t id) {
    const uint64_t at = (id % kSlots) * kBytes;
    const auto input = Pattern(kBytes, id);
    std::memcpy(client->window().data() + at, input.data(), kBytes);
    Submission submission;
    submission.id = id;
    submission.input_offset = at;
    submission.output_offset = kSlots * kBytes + at;
    submission.input_bytes = submission.output_bytes = kBytes;
    submission.model = model->index;
    submission.rows = 100;
    submission.deadline_us = 30'000'000;
    return client->Submit(submission);
  };
  for (uint64_t id = 0; id < kSlots; id++) ASSERT_TRUE(submit(id));
  EXPECT_FALSE(submit(kSlots)) << "the slots are in use";
  for (uint64_t answered = 0; answered < 200; answered++) {
    const auto completion = client->Wait(30s);
    ASSERT_TRUE(completion && *completion);
    const uint64_t id = (*completion)->id;
    ASSERT_EQ((*completion)->status, 0u);
    ASSERT_EQ(std::memcmp(client->window().data() + (kSlots + id % kSlots) * kBytes,
                          Pattern(kBytes, id).data(), kBytes),
              0)
        << id;
    // Its place is free, and the places of others are not.
    ASSERT_TRUE(submit(id + kSlots));
  }
}

TEST(RemoteClient, InputsAndOutputsThatTheDeviceDoesNotSendAtOnceComeWhole) {
  GatewayBed bed(WindowsConfig());
  constexpr uint64_t kBytes = 20 << 20;  // soft-RoCE sends 8 MiB
  const EchoExecutor executor(Here(bed), 1, 1, kBytes, 1 << 20);
  AwaitExecutors(bed, 1);
  auto client = Remote(bed);
  ASSERT_TRUE(client->OpenWindow(2 * kBytes));
  AskForEcho(*client, client->Describe("echo")->index, kBytes >> 20, 7, 1 << 20);
}

TEST(RemoteClient, IsToldWhatIsWrongAndGoesOn) {
  GatewayBed bed(WindowsConfig());
  const EchoExecutor executor(Here(bed), 1, 2, 64 << 10, kRow);
  AwaitExecutors(bed, 1);
  auto client = Remote(bed);
  ASSERT_TRUE(client->OpenWindow(1 << 20, 4));
  EXPECT_FALSE(client->OpenWindow(1 << 20)) << "there is one";
  const auto model = client->Describe("echo");
  const auto wrong = client->InferInWindow(model->index, 2, 0, kRow, 4096, 4096);
  ASSERT_TRUE(wrong) << wrong.error().message;
  EXPECT_EQ(wrong->status, Status::kBadRequest);
  EXPECT_THAT(wrong->message, HasSubstr("64 bytes of inputs, expected 128 for 2 rows"));
  const auto beyond = client->InferInWindow(model->index, 1, (1 << 20) - 32, kRow, 0, 4096);
  ASSERT_TRUE(beyond) << beyond.error().message;
  EXPECT_EQ(beyond->status, Status::kDenied);
  EXPECT_THAT(beyond->message, HasSubstr("are not within a region of 1048576"));
  const auto nowhere = client->InferInWindow(model->index, 1, 0, kRow, uint64_t{1} << 40, 4096);
  ASSERT_TRUE(nowhere) << nowhere.error().message;
  EXPECT_EQ(nowhere->status, Status::kDenied);
  AskForEcho(*client, model->index, 100, 1);
  // In frames beside the window, too.
  const auto input = Pattern(kRow);
  EXPECT_EQ(client->Infer(model->index, 1, input, 30s)->outputs, input);
}

TEST(RemoteClient, WithoutRdmaAtTheGatewayGoesOnInFrames) {
  GatewayConfig config = WindowsConfig();
  config.rdma.clients = "";
  GatewayBed bed(config);
  const EchoExecutor executor(Here(bed), 1, 2, 64 << 10, kRow);
  AwaitExecutors(bed, 1);
  auto client = Remote(bed);
  const auto opened = client->OpenWindow(1 << 20);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("rdma.clients"));
  EXPECT_EQ(client->way(), Client::Way::kFrames);
  const auto input = Pattern(kRow);
  EXPECT_EQ(client->Infer(client->Describe("echo")->index, 1, input, 30s)->outputs, input);
}

TEST(RemoteClient, WithAWrongTokenGetsNothing) {
  GatewayBed bed(WindowsConfig());
  EXPECT_THAT(Remote(bed, "bob", "not-bobs-token").error().message, HasSubstr("wrong token"));
  EXPECT_EQ(WindowsHeld(bed), 0u);
  auto bob = Remote(bed, "bob", "bobs-token");
  ASSERT_TRUE(bob) << bob.error().message;
  EXPECT_TRUE(bob->OpenWindow(1 << 20));
  EXPECT_EQ(WindowsHeld(bed), Holds(1 << 20));
}

TEST(RemoteClient, WindowsCountInTheirLimit) {
  GatewayConfig config = WindowsConfig();
  config.broker.windows = 4 << 20;
  GatewayBed bed(config);
  auto first = Remote(bed);
  EXPECT_THAT(first->OpenWindow(5 << 20).error().message, HasSubstr("limits.windows"));
  ASSERT_TRUE(first->OpenWindow(3 << 20));
  auto second = Remote(bed);
  EXPECT_THAT(second->OpenWindow(2 << 20).error().message, HasSubstr("memory for windows is full"));
  EXPECT_EQ(WindowsHeld(bed), Holds(3 << 20));
  first = Fail(ErrorCode::kUnavailable, "gone");
  bed.Until([](Server& server) { return server.broker().windows_held() == 0; });
  EXPECT_TRUE(second->OpenWindow((4 << 20) - (128 << 10)));
}

TEST(RemoteClient, ThatIsKilledWithRequestsInHandGivesItsMemoryBack) {
  GatewayBed bed(WindowsConfig());
  ProgramSlice::Options options{Here(bed), "slow", ProgramModel(kRow, 4)};
  options.cells = 1;
  auto program = ProgramSlice::Join(options);
  ASSERT_TRUE(program) << program.error().message;
  for (int life = 0; life < 3; life++) {
    const pid_t doomed = StartOther("--doomed-client", bed.tcp_address);
    // It dies once its first request is taken; the others wait.
    const auto taken = program->Take(60s);
    ASSERT_TRUE(taken && *taken);
    EXPECT_EQ(std::memcmp((*taken)->inputs.data(), Pattern(kRow).data(), kRow), 0);
    ASSERT_EQ(kill(doomed, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(doomed, &status, 0), doomed);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    bed.Until([](Server& server) {
      return server.counts().sessions == 0 && server.broker().windows_held() == 0 &&
             server.broker().queued() == 0;
    });
    ASSERT_TRUE(program->Answer(Pattern(kRow)));
    bed.Until([](Server& server) { return server.broker().running() == 0; });
  }
  auto client = Remote(bed);
  ASSERT_TRUE(client->OpenWindow(1 << 20));
  const auto model = client->Describe("program");
  std::memcpy(client->window().data(), Pattern(kRow, 5).data(), kRow);
  auto asked = std::async(std::launch::async,
                          [&] { return client->InferInWindow(model->index, 1, 0, kRow, 4096, 4096, 60s); });
  const auto taken = program->Take(60s);
  ASSERT_TRUE(taken && *taken);
  EXPECT_EQ(std::memcmp((*taken)->inputs.data(), Pattern(kRow, 5).data(), kRow), 0);
  ASSERT_TRUE(program->Answer(Pattern(kRow, 6)));
  EXPECT_EQ(asked.get()->status, Status::kOk);
  EXPECT_EQ(std::memcmp(client->window().data() + 4096, Pattern(kRow, 6).data(), kRow), 0);
}

TEST(RemoteClient, HearsThatItsGatewayHasGone) {
  auto bed = std::make_unique<GatewayBed>(WindowsConfig());
  auto client = Remote(*bed);
  ASSERT_TRUE(client->OpenWindow(1 << 20));
  bed.reset();
  const auto heard = client->Wait(60s);
  ASSERT_FALSE(heard);
  EXPECT_EQ(heard.error().code, ErrorCode::kUnavailable);
}

TEST(RemoteClient, OfRequestsOf64KiBOneByOne) {
  GatewayBed bed(WindowsConfig());
  const EchoExecutor executor(Here(bed), 1, 2, 64 << 10, 64 << 10);
  AwaitExecutors(bed, 1);
  for (const bool in_window : {true, false}) {
    auto client = Remote(bed);
    ASSERT_TRUE(client->OpenWindow(1 << 20));
    const auto model = client->Describe("echo");
    const auto input = Pattern(64 << 10);
    std::vector<double> us;
    for (int i = 0; i < 100; i++) {
      const auto begin = std::chrono::steady_clock::now();
      const auto result = in_window
                              ? client->InferInWindow(model->index, 1, 0, 64 << 10, 64 << 10, 64 << 10, 30s)
                              : client->Infer(model->index, 1, input, 30s);
      ASSERT_EQ(result->status, Status::kOk) << result->message;
      us.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(us.begin(), us.end());
    fmt::print("measured: a client's 64 KiB there and back {}: p50 {:.0f} us, p99 {:.0f} us\n",
               in_window ? "by its window over RDMA" : "in frames over TCP", us[50], us[98]);
  }
}

}  // namespace

int DoomedClient(const std::string& address) {
  auto client = Client::Connect(address, {"alice", ""});
  if (!client || !client->OpenWindow(1 << 20, 8)) return 1;
  const auto model = client->Describe("program");
  if (!model) return 1;
  const auto input = Pattern(kRow);
  std::memcpy(client->window().data(), input.data(), kRow);
  for (uint64_t id = 0; id < 8; id++) {
    Submission submission;
    submission.id = id;
    submission.input_bytes = kRow;
    submission.output_offset = 4096;
    submission.output_bytes = 4096;
    submission.model = model->index;
    submission.deadline_us = 60'000'000;
    if (!client->Submit(submission)) return 1;
  }
  (void)client->Wait(60s);
  return 1;
}

}  // namespace spillway::gateway
