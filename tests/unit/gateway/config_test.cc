// SPDX-License-Identifier: Apache-2.0
#include "gateway/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "gateway/executor/executor_config.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::string GatewayError(const std::string& yaml) {
  const auto config = ParseGatewayConfig(yaml, "g.yaml");
  EXPECT_FALSE(config);
  return config ? "" : config.error().message;
}
std::string ExecutorError(const std::string& yaml) {
  const auto config = ParseExecutorConfig(yaml, "e.yaml");
  EXPECT_FALSE(config);
  return config ? "" : config.error().message;
}

constexpr const char* kGateway = R"(
http: 127.0.0.1:8000
frames: ["unix:/tmp/f.sock", "127.0.0.1:8001"]
executors: /tmp/e.sock
isolation: gpu
io: epoll
spin: 50us
limits: {request: 64KiB, memory: 1MiB, deadline: 50ms, longest_deadline: 2s}
tenants:
  - {name: alice, queue: 3}
  - {name: bob}
)";

TEST(GatewayConfig, ReadsAllThatItKnows) {
  const auto config = ParseGatewayConfig(kGateway, "g.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->http, "127.0.0.1:8000");
  EXPECT_EQ(config->frames.size(), 2u);
  EXPECT_EQ(config->broker.isolation, scheduler::Isolation::kGpu);
  EXPECT_EQ(config->io, Io::kEpoll);
  EXPECT_EQ(config->spin, Duration(50us));
  EXPECT_EQ(config->most_request, 65536u);
  EXPECT_EQ(config->broker.memory, 1u << 20);
  EXPECT_EQ(config->broker.default_deadline, 50ms);
  EXPECT_EQ(config->broker.tenants[0].queue, 3u);
}

TEST(GatewayConfig, RefusesWithFileLineKeyAndWhatWasExpected) {
  EXPECT_THAT(GatewayError("executors: /e\nhtpp: x\n"),
              HasSubstr("g.yaml:2: unknown key \"htpp\", did you mean http?"));
  EXPECT_THAT(GatewayError("http: a:1\n"), HasSubstr("executors: "));
  EXPECT_THAT(GatewayError("executors: /e\n"), HasSubstr("expected http or frames"));
  EXPECT_THAT(GatewayError("executors: /e\nhttp: a:1\nisolation: mig\n"),
              HasSubstr("g.yaml:3: isolation: expected one of none, fraction, gpu"));
  EXPECT_THAT(GatewayError("executors: /e\nhttp: a:1\nio: aio\n"),
              HasSubstr("g.yaml:3: io: expected one of auto, uring, epoll"));
  EXPECT_THAT(GatewayError("executors: /e\nhttp: a:1\nlimits: {request: 5XiB}\n"),
              HasSubstr("limits.request: expected 64 to"));
  EXPECT_THAT(GatewayError("executors: /e\nhttp: a:1\nlimits: {request: 2MiB, memory: 1MiB}\n"),
              HasSubstr("expected no more than limits.memory"));
  EXPECT_THAT(GatewayError("executors: /e\nhttp: a:1\ntenants: [{name: a}, {name: a}]\n"),
              HasSubstr("expected a name of its own"));
  EXPECT_THAT(GatewayError("executors: /e\nhttp: a:1\ntenants: []\n"),
              HasSubstr("expected 1 to 1024 tenants"));
  EXPECT_THAT(GatewayError("executors: \"\"\nhttp: a:1\n"),
              HasSubstr("g.yaml:1: executors: expected the path of a UNIX socket"));
  EXPECT_THAT(GatewayError("executors: /" + std::string(107, 'x') + "\nhttp: a:1\n"),
              HasSubstr("1 to 107 characters"));
  EXPECT_THAT(GatewayError("executors: /e\nhttp: \"\"\nframes: [\"a:1\"]\n"),
              HasSubstr("g.yaml:2: http: expected ADDRESS:PORT"));
  EXPECT_THAT(GatewayError("executors: [\n"), HasSubstr("expected YAML"));
}

TEST(GatewayConfig, OneTenantOfNoTokenWhereNoneIsNamed) {
  const auto config = ParseGatewayConfig("executors: /e\nhttp: a:1\n", "g.yaml");
  ASSERT_TRUE(config);
  EXPECT_EQ(Authenticate(*config, "", ""), 0u);
  EXPECT_EQ(AuthenticateByToken(*config, ""), 0u);
}

TEST(GatewayConfig, ATokenOpensItsTenantAlone) {
  GatewayConfig config;
  config.broker.tenants = {{"alice"}, {"bob"}, {"anybody"}};
  config.tokens = {"alices-token", "bobs-token-x", ""};
  EXPECT_EQ(Authenticate(config, "alice", "alices-token"), 0u);
  EXPECT_EQ(Authenticate(config, "alice", "bobs-token-x"), std::nullopt);
  EXPECT_EQ(Authenticate(config, "bob", ""), std::nullopt);
  EXPECT_EQ(Authenticate(config, "", ""), 2u);
  EXPECT_EQ(AuthenticateByToken(config, "bobs-token-x"), 1u);
  EXPECT_EQ(AuthenticateByToken(config, "bobs-token"), std::nullopt);
  EXPECT_EQ(AuthenticateByToken(config, ""), 2u);
}

TEST(GatewayConfig, ReadsTokensBesideTheFileAndRefusesBadOnes) {
  const auto folder = std::filesystem::temp_directory_path() / ("spillway-token-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "good") << "0123456789abcdef\n";
  std::ofstream(folder / "short") << "abc\n";
  const std::string head = "executors: /e\nhttp: a:1\ntenants: [{name: a, token_file: ";
  const auto config = ParseGatewayConfig(head + "good}]", (folder / "g.yaml").string());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->tokens[0], "0123456789abcdef");
  EXPECT_THAT(ParseGatewayConfig(head + "short}]", (folder / "g.yaml").string()).error().message,
              HasSubstr("expected 8 to 256 printable characters"));
  EXPECT_THAT(ParseGatewayConfig(head + "none}]", (folder / "g.yaml").string()).error().message,
              HasSubstr("expected a readable file"));
  std::filesystem::remove_all(folder);
}

constexpr const char* kExecutor = R"(
gateway: /tmp/e.sock
name: host1
cell: {input: 64KiB, output: 4KiB}
gpus:
  - {name: gpu0, slices: [{name: s0, gflop_per_s: 10, cells: 2}, {name: s1, gflop_per_s: 20}]}
models:
  - {name: digits, kind: mlp, layers: [784, 32, 10], seed: 3, rows: 16}
  - {name: same, kind: echo, row_bytes: 4096, rows: 1}
)";

TEST(ExecutorConfig, ReadsAllThatItKnows) {
  const auto config = ParseExecutorConfig(kExecutor, "e.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->cuda);
  ASSERT_EQ(config->options.slices.size(), 2u);
  EXPECT_EQ(config->options.slices[0].cells, 2u);
  EXPECT_EQ(config->options.slices[1].gflop_per_s, 20);
  ASSERT_EQ(config->models.size(), 2u);
  EXPECT_EQ(config->models[0].layers, (std::vector<int64_t>{784, 32, 10}));
}

TEST(ExecutorConfig, ASlicesPlaceOnADeviceIsItsOwnOrItsGpus) {
  const auto config = ParseExecutorConfig(R"(
gateway: /tmp/e.sock
name: h
engine: cuda
gpus:
  - {name: a, sm_percent: 50, slices: [{name: s0, gflop_per_s: 1}, {name: s1, gflop_per_s: 1, sm_percent: 20}]}
  - {name: b, slices: [{name: s0, gflop_per_s: 1}]}
  - name: c
    device: MIG-00000000-0000-0000-0000-000000000001
    slices: [{name: s0, gflop_per_s: 1}, {name: s1, gflop_per_s: 1, device: 7}]
models: [{name: m, kind: echo, row_bytes: 8}]
)",
                                          "e.yaml");
  ASSERT_TRUE(config) << config.error().message;
  std::string text;
  for (const CudaPlace& place : config->places)
    text += place.gpu + "/" + place.slice + ":" + place.device + "@" + std::to_string(place.sm_percent) + " ";
  EXPECT_EQ(text,
            "a/s0:0@50 a/s1:0@20 b/s0:1@100 c/s0:MIG-00000000-0000-0000-0000-000000000001@100 c/s1:7@100 ");
}

TEST(ExecutorConfig, RefusesWithTheReason) {
  const std::string head = "gateway: /e\nname: h\ngpus: [{name: g, slices: [{name: s, gflop_per_s: 1}]}]\n";
  EXPECT_THAT(ExecutorError(head + "models: []\n"), HasSubstr("expected at least one model"));
  const std::string models = "models: [{name: m, kind: echo, row_bytes: 8}]\n";
  EXPECT_THAT(ExecutorError("gateway: \"\"\n" + head.substr(head.find('\n') + 1) + models),
              HasSubstr("e.yaml:1: gateway: expected the path of a UNIX socket, 1 to 107 characters"));
  EXPECT_THAT(ExecutorError("gateway: /e\nname: h\ngpus: [{name: g, slices: []}]\n" + models),
              HasSubstr("gpus[g].slices: expected at least one slice"));
  const auto placed = [&](const std::string& engine, const std::string& keys) {
    return ExecutorError("gateway: /e\nname: h\nengine: " + engine +
                         "\ngpus: [{name: g, slices: [{name: s, gflop_per_s: 1, " + keys + "}]}]\n" + models);
  };
  EXPECT_THAT(placed("emulated", "device: 0"), HasSubstr("device: expected only with engine: cuda"));
  EXPECT_THAT(placed("cuda", "device: gpu0"),
              HasSubstr("expected an index as in nvidia-smi, GPU-UUID or MIG-UUID"));
  EXPECT_THAT(placed("cuda", "sm_percent: 101"), HasSubstr("expected a whole number from 1 to 100"));
  EXPECT_THAT(ExecutorError(head + "models: [{name: m, kind: tree}]\n"), HasSubstr("expected one of echo"));
  EXPECT_THAT(ExecutorError(head + "models: [{name: m, kind: mlp, layers: [5]}]\n"),
              HasSubstr("expected 2 to 64 widths"));
  EXPECT_THAT(ExecutorError(head + "models: [{name: m, kind: echo, row_bytes: 8, layers: [1, 2]}]\n"),
              HasSubstr("expected only with kind: mlp"));
  EXPECT_THAT(ExecutorError(head + "models: [{name: m, kind: echo, row_bytes: 1000000, rows: 64}]\n"),
              HasSubstr("to fit into a cell"));
  EXPECT_THAT(
      ExecutorError("gateway: /e\nname: h\ngpus: []\nmodels: [{name: m, kind: echo, row_bytes: 8}]\n"),
      HasSubstr("expected 1 to 64 slices"));
}

}  // namespace
}  // namespace spillway::gateway
