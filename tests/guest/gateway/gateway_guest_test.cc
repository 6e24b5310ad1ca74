// SPDX-License-Identifier: Apache-2.0
// The gateway with executors that come over RDMA. Lines "measured: ..." are figures.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/socket_address.h"
#include "gateway/transport/rdma/inlet.h"
#include "gateway/transport/rdma/messages.h"
#include "remote_bed.h"
#include "tests/unit/gateway/model_specs.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Result<ProgramSlice> Join(const GatewayAddress& gateway, const std::string& name, uint32_t cells = 2,
                          const ModelCard& model = ProgramModel()) {
  ProgramSlice::Options options{gateway, name, model};
  options.cells = cells;
  return ProgramSlice::Join(options);
}

// How long the gateway stays awake.
class RemoteExecutorOver : public testing::TestWithParam<Duration> {};
INSTANTIATE_TEST_SUITE_P(Ways, RemoteExecutorOver, testing::Values(200us, 0us));

TEST_P(RemoteExecutorOver, AnswersRequestsOfAllSizesEachItsOwn) {
  GatewayConfig config = RemoteConfig();
  config.spin = GetParam();
  GatewayBed bed(config);
  const EchoExecutor executor(AddressOf(bed), 2, 3, 1 << 20, 64);
  AwaitExecutors(bed, 1);
  std::vector<std::future<void>> clients;
  for (uint64_t seed = 0; seed < 3; seed++)
    clients.push_back(std::async(std::launch::async, [&bed, seed] {
      auto client = bed.Dial();
      ASSERT_TRUE(client) << client.error().message;
      const auto model = client->Describe("echo");
      ASSERT_TRUE(model) << model.error().message;
      std::mt19937_64 random(seed);
      for (uint64_t i = 0; i < 20; i++) {
        const auto rows = static_cast<uint32_t>(i % 5 == 0 ? 16384 : 1 + random() % 1000);
        const auto input = Pattern(rows * 64, seed * 1000 + i);
        const auto result = client->Infer(model->index, rows, input, 30s);
        ASSERT_TRUE(result) << result.error().message;
        ASSERT_EQ(result->status, Status::kOk) << result->message;
        ASSERT_EQ(result->outputs, input) << rows << " rows";
      }
    }));
  for (auto& client : clients) client.get();
}

TEST(RemoteExecutor, InputsThatTheDeviceDoesNotSendAtOnceComeWhole) {
  GatewayBed bed(RemoteConfig());
  constexpr size_t kBytes = 20 << 20;  // soft-RoCE sends 8 MiB
  auto program = Join(AddressOf(bed), "big", 1, ProgramModel(kBytes, 1, 8));
  ASSERT_TRUE(program) << program.error().message;
  auto client = bed.Dial();
  const auto model = client->Describe("program");
  const auto input = Pattern(kBytes, 3);
  auto asked = std::async(std::launch::async, [&] { return client->Infer(model->index, 1, input, 60s); });
  const auto taken = program->Take(60s);
  ASSERT_TRUE(taken && *taken);
  EXPECT_EQ(std::memcmp((*taken)->inputs.data(), input.data(), kBytes), 0);
  ASSERT_TRUE(program->Answer(Pattern(8)));
  EXPECT_EQ(asked.get()->outputs, Pattern(8));
}

TEST(RemoteExecutor, OutputsThatTheDeviceDoesNotSendAtOnceAreRefusedAtTheDoor) {
  GatewayBed bed(RemoteConfig());
  const auto program = Join(AddressOf(bed), "big", 1, ProgramModel(8, 1, 20 << 20));
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().message, HasSubstr("bytes of outputs; the RDMA device sends"));
}

TEST(RemoteExecutor, AProgramsErrorIsPassedOn) {
  GatewayBed bed(RemoteConfig());
  auto program = Join(AddressOf(bed), "far");
  ASSERT_TRUE(program) << program.error().message;
  auto client = bed.Dial();
  const auto model = client->Describe("program");
  auto asked = std::async(std::launch::async, [&] { return client->Infer(model->index, 1, Pattern(8)); });
  ASSERT_TRUE(*program->Take(60s));
  program->Refuse("out of paper");
  const auto result = asked.get();
  EXPECT_EQ(result->status, Status::kFailed);
  EXPECT_EQ(result->message, "out of paper");
}

TEST(RemoteExecutor, OneTenantsDataIsGoneFromASliceBeforeAnothersComes) {
  GatewayBed bed(RemoteConfig());
  // Larger than what is wiped by one write.
  constexpr size_t kRow = 100'000, kRows = 4;
  auto program = Join(AddressOf(bed), "far", 1, ProgramModel(kRow, kRows));
  ASSERT_TRUE(program) << program.error().message;
  auto alice = bed.Dial();
  auto bob = bed.Dial("bob", "bobs-token");
  const auto model = alice->Describe("program");
  const auto secret = std::vector(kRow * kRows, std::byte{0xAA});
  auto asked = std::async(std::launch::async, [&] { return alice->Infer(model->index, kRows, secret, 60s); });
  ASSERT_TRUE(*program->Take(60s));
  ASSERT_TRUE(program->Answer(secret));
  ASSERT_EQ(asked.get()->status, Status::kOk);
  asked = std::async(std::launch::async,
                     [&] { return bob->Infer(model->index, 1, std::vector(kRow, std::byte{0xBB}), 60s); });
  const auto taken = program->Take(60s);
  ASSERT_TRUE(taken && *taken);
  // The cell beyond Bob's own row, inputs and outputs.
  const std::byte* cell = (*taken)->inputs.data();
  const size_t left = static_cast<size_t>(std::count(cell + kRow, cell + 2 * kRow * kRows, std::byte{0xAA}));
  EXPECT_EQ(left, 0u);
  EXPECT_EQ(std::count(cell, cell + kRow, std::byte{0xBB}), static_cast<std::ptrdiff_t>(kRow));
  program->Refuse("enough");
  asked.get();
}

TEST(RemoteExecutor, OneThatIsKilledWithARequestHasItPlacedAgain) {
  GatewayBed bed(RemoteConfig());
  const pid_t doomed = StartOther("--doomed", AddressOf(bed).address);
  AwaitExecutors(bed, 1);
  auto client = bed.Dial();
  const auto model = client->Describe("program");
  auto asked =
      std::async(std::launch::async, [&] { return client->Infer(model->index, 1, Pattern(8), 60s); });
  int status = 0;
  ASSERT_EQ(waitpid(doomed, &status, 0), doomed);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  auto second = Join(AddressOf(bed), "second");
  ASSERT_TRUE(second) << second.error().message;
  const auto taken = second->Take(60s);
  ASSERT_TRUE(taken && *taken);
  EXPECT_EQ(std::memcmp((*taken)->inputs.data(), Pattern(8).data(), 8), 0);
  ASSERT_TRUE(second->Answer(Pattern(8, 1)));
  const auto result = asked.get();
  EXPECT_EQ(result->status, Status::kOk) << result->message;
  EXPECT_EQ(result->outputs, Pattern(8, 1));
}

// A model that says when it has a request in hand, and waits to be let go on.
class PatientEngine : public Engine {
 public:
  const std::vector<ModelCard>& models() const override { return models_; }
  Result<std::unique_ptr<SliceEngine>> MakeSlice(const SliceOffer&, const SliceMemory&) override {
    return std::make_unique<Slice>(*this);
  }
  std::promise<void> in_hand, go_on;
  static constexpr size_t kOutput = 4 << 20;  // is long on its way

 private:
  struct Slice : public SliceEngine {
    explicit Slice(PatientEngine& all) : engine(all) {}
    Result<void> Run(uint32_t, int64_t, std::span<const std::byte> inputs,
                     std::span<std::byte> outputs) override {
      engine.in_hand.set_value();
      engine.go_on.get_future().wait();
      for (size_t i = 0; i < outputs.size(); i++) outputs[i] = inputs[i % inputs.size()];
      return {};
    }
    PatientEngine& engine;
  };
  std::vector<ModelCard> models_ = {ProgramModel(8, 1, kOutput)};
};

TEST(RemoteExecutor, OneThatIsStoppedAnswersWhatItHasInHand) {
  GatewayBed bed(RemoteConfig());
  PatientEngine engine;
  ExecutorOptions options;
  options.gateway = AddressOf(bed);
  options.name = "far";
  options.slices = {{"s", "g", 1, 2, 64, PatientEngine::kOutput}};
  Executor executor(options, engine);
  ASSERT_TRUE(executor.Join());
  auto client = bed.Dial();
  const auto model = client->Describe("program");
  auto asked =
      std::async(std::launch::async, [&] { return client->Infer(model->index, 1, Pattern(8), 60s); });
  engine.in_hand.get_future().wait();
  auto leaves = std::async(std::launch::async, [&] { executor.Leave(); });
  engine.go_on.set_value();
  const auto result = asked.get();
  EXPECT_EQ(result->status, Status::kOk) << result->message;
  EXPECT_EQ(result->outputs.size(), PatientEngine::kOutput);
  leaves.get();
  EXPECT_EQ(bed.Ask([](Server& server) { return server.broker().counts().replaced; }), 0u);
}

TEST(RemoteExecutor, ComesInPastManyWhoHaveNoToken) {
  GatewayBed bed(RemoteConfig());
  const auto endpoint = base::SocketAddress::Parse(bed.rdma_address);
  std::vector<base::Fd> strangers;
  for (int i = 0; i < 80; i++) {
    strangers.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(connect(strangers.back().get(), endpoint->get(), endpoint->length), 0);
    // Half a message, of half of them.
    if (i % 2 == 0) {
      EXPECT_EQ(send(strangers.back().get(), "\x20\0\0\0abc", 7, 0), 7);
    }
  }
  const auto program = Join(AddressOf(bed), "far");
  EXPECT_TRUE(program) << program.error().message;
  MessageReader reader;
  const auto told = AwaitMessage(strangers.front().get(), reader, std::chrono::steady_clock::now() + 30s);
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_THAT(*told, HasSubstr("closed to make room for others"));
}

TEST(RemoteExecutor, ComesBackWhenItsGatewayDoes) {
  auto bed = std::make_unique<GatewayBed>(RemoteConfig());
  const GatewayAddress gateway = AddressOf(*bed);
  const std::string port = bed->rdma_address.substr(bed->rdma_address.rfind(':') + 1);
  const EchoExecutor executor(gateway, 1, 2, 64 << 10, 64);
  for (int life = 0; life < 3; life++) {
    AwaitExecutors(*bed, 1);
    auto client = bed->Dial();
    const auto model = client->Describe("echo");
    EXPECT_EQ(client->Infer(model->index, 10, Pattern(640), 30s)->outputs, Pattern(640));
    bed.reset();
    bed = std::make_unique<GatewayBed>(RemoteConfig(port));
  }
}

TEST(RemoteExecutor, AProgramHearsThatItsGatewayHasGone) {
  auto bed = std::make_unique<GatewayBed>(RemoteConfig());
  auto program = Join(AddressOf(*bed), "far");
  ASSERT_TRUE(program) << program.error().message;
  bed.reset();
  const auto taken = program->Take(60s);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, ErrorCode::kUnavailable);
}

TEST(RemoteExecutor, IsRefusedWithTheReason) {
  GatewayConfig config = RemoteConfig();
  config.rdma.memory = 1 << 20;
  GatewayBed bed(config);
  GatewayAddress gateway = AddressOf(bed);
  gateway.token = "another-token";
  EXPECT_THAT(Join(gateway, "far").error().message, HasSubstr("expected the token of rdma.token_file"));
  gateway.token = "";
  EXPECT_THAT(Join(gateway, "far").error().message, HasSubstr("expected the token of rdma.token_file"));
  EXPECT_THAT(Join(AddressOf(bed), "far", 4, ProgramModel(1 << 20, 1)).error().message,
              HasSubstr("of rdma.memory are free"));
  const auto first = Join(AddressOf(bed), "far");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_THAT(Join(AddressOf(bed), "far").error().message,
              HasSubstr("an executor named far is already connected"));
  EXPECT_THAT(Join({"rdma:" + DeviceAddress() + ":9", kToken}, "far").error().message, HasSubstr("refused"));
  // What those who were refused would have held is free again.
  ModelCard another = ProgramModel(64 << 10, 1);
  another.name = "another";
  const auto third = Join(AddressOf(bed), "third", 4, another);
  EXPECT_TRUE(third) << third.error().message;
}

TEST(RemoteExecutor, AConnectionWithoutATicketIsRefused) {
  GatewayBed bed(RemoteConfig());
  const SliceOffer offer{"s", "g", 1, 2, 64, 64};
  // The queue pairs' port is told to those with a token only; here it is asked for honestly.
  MessageReader reader;
  const auto endpoint = base::SocketAddress::Parse(bed.rdma_address);
  const base::Fd socket(::socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(connect(socket.get(), endpoint->get(), endpoint->length), 0);
  ASSERT_TRUE(SendMessage(socket.get(), kToken));
  ASSERT_TRUE(SendMessage(socket.get(), ToJson(KeyedOffer{{"far", {ProgramModel()}, {offer}}, {7}}).dump()));
  const auto answer = AwaitMessage(socket.get(), reader, std::chrono::steady_clock::now() + 30s);
  ASSERT_TRUE(answer) << answer.error().message;
  const auto place = nlohmann::json::parse(*answer);
  RdmaInlet::Place there{endpoint->storage, place["ticket"].get<uint64_t>() + 1, 0};
  reinterpret_cast<sockaddr_in*>(&there.gateway)->sin_port = htons(place["rdma_port"].get<uint16_t>());
  const auto until = std::chrono::steady_clock::now() + 30s;
  const auto inlet = RdmaInlet::Connect(offer, 7, there, until, [] {});
  ASSERT_FALSE(inlet);
  EXPECT_THAT(inlet.error().message, HasSubstr("the gateway refused its connection"));
  // With the ticket, a slice that was not offered.
  there.ticket--;
  there.slice = 1;
  EXPECT_FALSE(RdmaInlet::Connect(offer, 7, there, until, [] {}));
  EXPECT_THAT(AwaitMessage(socket.get(), reader, until).value(), HasSubstr("no slice 1 is awaited"));
}

TEST(RemoteExecutor, RubbishCostsItsSenderAlone) {
  GatewayBed bed(RemoteConfig());
  const EchoExecutor good(AddressOf(bed), 1, 2, 64 << 10, 64);
  AwaitExecutors(bed, 1);
  const auto end = std::chrono::steady_clock::now() + 30s;
  const auto endpoint = base::SocketAddress::Parse(bed.rdma_address);
  for (const std::string& rubbish : {std::string("GET / HTTP/1.1\r\nHost: gateway\r\n\r\n"),
                                     std::string(8, '\xff'), std::string(4, '\0')}) {
    const base::Fd socket(::socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(connect(socket.get(), endpoint->get(), endpoint->length), 0);
    ASSERT_EQ(send(socket.get(), rubbish.data(), rubbish.size(), 0), static_cast<ssize_t>(rubbish.size()));
    MessageReader reader;
    const auto answer = AwaitMessage(socket.get(), reader, end);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_THAT(*answer, HasSubstr("error"));
  }
  const SliceOffer slice{"s", "g", 1, 2, 64, 4096};
  // Answers that nobody asked for, and one that is longer than any.
  for (const uint64_t bytes : {64, 8000}) {
    auto joined = JoinGateway(AddressOf(bed), {"bad", {ProgramModel()}, {slice}});
    ASSERT_TRUE(joined) << joined.error().message;
    Completion completion;
    completion.id = 999;
    completion.output_bytes = bytes;
    joined->slices[0]->Complete(completion, 0);
    char byte;
    EXPECT_EQ(recv(joined->socket.get(), &byte, 1, 0), 0) << "it is let go";
  }
  AwaitExecutors(bed, 1);
  auto client = bed.Dial();
  const auto model = client->Describe("echo");
  EXPECT_EQ(client->Infer(model->index, 10, Pattern(640), 30s)->outputs, Pattern(640));
}

TEST(RemoteExecutor, OfRequestsOf64KiBOneByOne) {
  GatewayBed bed(RemoteConfig());
  std::vector<double> gateway_us;
  bed.Ask([&](Server& server) {
    server.Trace([&](const RequestTimes& times) {
      const auto own = (times.delivered - times.seen) + (times.answered - times.heard);
      gateway_us.push_back(static_cast<double>(own.count()) / 1e3);
    });
    return 0;
  });
  const EchoExecutor executor(AddressOf(bed), 1, 2, 64 << 10, 64 << 10);
  AwaitExecutors(bed, 1);
  auto client = bed.Dial();
  const auto model = client->Describe("echo");
  const auto input = Pattern(64 << 10);
  std::vector<double> us;
  for (int i = 0; i < 100; i++) {
    const auto begin = std::chrono::steady_clock::now();
    const auto result = client->Infer(model->index, 1, input, 30s);
    ASSERT_EQ(result->status, Status::kOk) << result->message;
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  bed.End();
  std::sort(us.begin(), us.end());
  std::sort(gateway_us.begin(), gateway_us.end());
  ASSERT_EQ(gateway_us.size(), 100u);
  fmt::print(
      "measured: 64 KiB there and back: p50 {:.0f} us, p99 {:.0f} us; the gateway's CPU p50 {:.1f} us\n",
      us[50], us[98], gateway_us[50]);
}

int Doomed(const std::string& address) {
  auto program = Join({address, kToken}, "doomed");
  if (!program) return 1;
  const auto taken = program->Take(60s);
  if (!taken || !*taken) return 1;
  return raise(SIGKILL);
}

}  // namespace
}  // namespace spillway::gateway

int main(int argc, char** argv) {
  using namespace spillway;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  spdlog::set_level(spdlog::level::err);
  if (argc > 2 && std::string(argv[1]) == "--doomed") return gateway::Doomed(argv[2]);
  if (argc > 2 && std::string(argv[1]) == "--doomed-client") return gateway::DoomedClient(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  if (const auto device = rdma::OpenEventChannel(); !device) {
    fmt::print("skipped: {}\n", device.error().message);
    return 77;
  }
  return RUN_ALL_TESTS();
}
