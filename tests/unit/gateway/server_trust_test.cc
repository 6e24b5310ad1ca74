// SPDX-License-Identifier: Apache-2.0
// Who may offer slices, how long a client or a program may take, and how a gateway goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <atomic>
#include <future>

#include "base/fd.h"
#include "frames.h"
#include "gateway/executor/program_slice.h"
#include "served.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(Server, AnExecutorShowsATokenWhereItsUserIsNotKnown) {
  GatewayConfig config = GatewayBed::Config();
  config.executor_trust.users = {};
  config.executor_trust.token = "executors-token";
  GatewayBed bed(config);
  auto engine = EchoEngine();
  const auto join = [&](const std::string& token) {
    ExecutorOptions options = bed.Executor("host");
    options.gateway.token = token;
    Executor executor(options, *engine);
    const auto joined = executor.Join();
    return joined ? "" : joined.error().message;
  };
  EXPECT_EQ(join("executors-token"), "");
  bed.Until([](Server& server) { return server.counts().executors == 0; });
  EXPECT_THAT(join("another-token"), HasSubstr("expected the token of executors.token_file"));
  EXPECT_THAT(join(""), HasSubstr("may not offer slices: expected one of executors.users, or the token"));
}

TEST(Server, AProgramTellsThatItLivesWhileItHasARequest) {
  GatewayBed bed;
  auto program = ProgramSlice::Join({{bed.executors_path()}, "program", ProgramModel()});
  ASSERT_TRUE(program) << program.error().message;
  auto client = bed.Dial();
  const auto model = client->Describe("program");
  const auto input = Pattern(8);
  auto asked = std::async(std::launch::async, [&] { return client->Infer(model->index, 1, input); });
  ASSERT_TRUE(program->Take(20s).value());
  bed.Until([](Server& server) { return server.counts().beats >= 2; });
  ASSERT_TRUE(program->Answer(input));
  EXPECT_EQ(asked.get()->status, Status::kOk);
}

TEST(Server, AClientThatSendsAFrameByteByByteIsCut) {
  GatewayConfig config = GatewayBed::Config();
  config.receive = 100ms;
  Served served(config);
  auto quiet = served.bed.Dial();
  ASSERT_TRUE(quiet);
  const int client = quiet->socket();
  const std::string frame = DescribeFrame(1, "echo");
  size_t sent = 0;
  while (sent + 1 < frame.size() && SendWhole(client, frame.substr(sent, 1))) {
    sent++;
    const Time until = Server::Now() + 50ms;
    served.bed.Until([&](Server&) { return Server::Now() > until; });
  }
  EXPECT_LT(sent + 1, frame.size()) << "it went on for as long as the client";
  auto idle = served.bed.Dial();
  EXPECT_TRUE(idle->Describe("echo")) << "others are served";
}

TEST(Server, DrainsBeforeItStops) {
  GatewayConfig config = GatewayBed::Config();
  config.drain_finish = 60s;
  GatewayBed bed(config);
  auto program = ProgramSlice::Join({{bed.executors_path()}, "program", ProgramModel()});
  auto client = bed.Dial(), late = bed.Dial();
  const auto model = client->Describe("program");
  const auto input = Pattern(8);
  EXPECT_TRUE(bed.Ask([](Server& server) { return server.IsReady(); }));
  auto asked = std::async(std::launch::async, [&] { return client->Infer(model->index, 1, input); });
  ASSERT_TRUE(program->Take(20s).value());
  bed.server->Drain();
  EXPECT_FALSE(bed.Ask([](Server& server) { return server.IsReady(); }));
  const auto refused = late->Infer(model->index, 1, input);
  ASSERT_TRUE(refused) << refused.error().message;
  EXPECT_EQ(refused->status, Status::kBusy);
  ASSERT_TRUE(program->Answer(input));
  EXPECT_EQ(asked.get()->status, Status::kOk) << "what it had was finished";
  // Then it ended: what is posted is not run any more.
  const auto runs = [&] {
    auto ran = std::make_shared<std::promise<void>>();
    auto heard = ran->get_future();
    bed.server->Post([ran] { ran->set_value(); });
    return heard.wait_for(1s) == std::future_status::ready;
  };
  while (runs()) std::this_thread::yield();
}

// RDMA without a device: who connects is met, and shows nothing.
class SilentRdma : public RdmaListener {
 public:
  explicit SilentRdma(int listener) : tcp_(listener) {}
  [[nodiscard]] int tcp() const override { return tcp_.get(); }
  [[nodiscard]] int events() const override { return quiet_.get(); }
  [[nodiscard]] std::vector<uint64_t> Serve() override { return {}; }
  [[nodiscard]] std::unique_ptr<ExecutorArrival> Meet(int, uint64_t) override {
    met++;
    return std::make_unique<Stranger>();
  }

  std::atomic<int> met{0};

 private:
  struct Stranger : public ExecutorArrival {
    [[nodiscard]] Result<Step> Read() override { return Step::kMore; }
    [[nodiscard]] bool IsTrusted() const override { return false; }
    [[nodiscard]] const ExecutorOffer& offer() const override { return offer_; }
    [[nodiscard]] Result<std::unique_ptr<ExecutorLink>> TakeLink() override {
      return Fail(ErrorCode::kBadInput, "");
    }
    [[nodiscard]] Result<void> Answer(const std::string&) override { return {}; }
    ExecutorOffer offer_;
  };
  base::Fd tcp_, quiet_{eventfd(0, 0)};
};

TEST(Server, StrangersOfTheNetworkDoNotSendLocalExecutorsAway) {
  auto rdma = std::make_unique<SilentRdma>(api::ListenTcp("127.0.0.1:0").value());
  SilentRdma& silent = *rdma;
  const int port = api::PortOf(silent.tcp());
  GatewayConfig config = GatewayBed::Config();
  config.executor_trust.users = {};
  config.executor_trust.token = "executors-token";
  GatewayBed bed(config, std::move(rdma));
  // A local one that has connected and not shown its token yet.
  base::Fd local(socket(AF_UNIX, SOCK_SEQPACKET, 0));
  sockaddr_un path{};
  path.sun_family = AF_UNIX;
  bed.executors_path().copy(path.sun_path, sizeof(path.sun_path) - 1);
  ASSERT_EQ(connect(local.get(), reinterpret_cast<const sockaddr*>(&path), sizeof(path)), 0);
  std::vector<base::Fd> strangers;
  for (int i = 1; i <= 100; i++) {
    strangers.emplace_back(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(strangers.back().get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    bed.Until([&](Server&) { return silent.met == i; });
  }
  char end = 0;
  EXPECT_EQ(recv(local.get(), &end, 1, MSG_DONTWAIT), -1) << "it was told to go";
  EXPECT_EQ(errno, EAGAIN);
  auto engine = EchoEngine();
  ExecutorOptions options = bed.Executor("host");
  options.gateway.token = "executors-token";
  Executor executor(options, *engine);
  EXPECT_TRUE(executor.Join()) << "and others may come";
}

// As a tenant's program that may open the socket, but is not an executor's user. Needs root, to be another
// user.
TEST(Server, AnotherUsersExecutorIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  GatewayBed bed;
  std::filesystem::permissions(bed.executors_path(), std::filesystem::perms(0666));
  Result<void> joined;
  std::thread([&] {
    // Of this thread alone.
    ASSERT_EQ(syscall(SYS_setresuid, -1, 65534, -1), 0);
    auto engine = EchoEngine();
    Executor executor(bed.Executor("host"), *engine);
    joined = executor.Join();
  }).join();
  ASSERT_FALSE(joined);
  EXPECT_THAT(joined.error().message, HasSubstr("user 65534"));
  EXPECT_TRUE(bed.Ask([](Server& server) { return server.broker().Slices().empty(); }));
}

}  // namespace
}  // namespace spillway::gateway
