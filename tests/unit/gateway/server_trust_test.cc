// SPDX-License-Identifier: Apache-2.0
// Who may offer slices, how long a client or a program may take, and how a gateway goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <future>

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
