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
spin: 50us
limits: {request: 64KiB, memory: 1MiB, deadline: 50ms, longest_deadline: 2m}
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
  EXPECT_EQ(config->spin, Duration(50us));
  EXPECT_EQ(config->most_request, 65536u);
  EXPECT_EQ(config->broker.memory, 1u << 20);
  EXPECT_EQ(config->broker.default_deadline, 50ms);
  EXPECT_EQ(config->broker.longest_deadline, 2min);
  EXPECT_EQ(config->broker.tenants[0].queue, 3u);
}

TEST(GatewayConfig, RefusesWithFileLineKeyAndWhatWasExpected) {
  EXPECT_THAT(GatewayError("executors: /e\nhtpp: x\n"),
              HasSubstr("g.yaml:2: unknown key \"htpp\", did you mean http?"));
  EXPECT_THAT(GatewayError("http: 127.0.0.1:1\n"),
              HasSubstr("expected executors or rdma.listen; without one no executor can connect"));
  EXPECT_THAT(GatewayError("executors: /e\n"),
              HasSubstr("expected http or frames; without one no client can connect"));
  EXPECT_THAT(GatewayError("executors: /e\nhttp: 127.0.0.1:1\nisolation: mig\n"),
              HasSubstr("g.yaml:3: isolation: expected one of none, fraction, gpu"));
  EXPECT_THAT(GatewayError("executors: /e\nhttp: 127.0.0.1:1\nlimits: {request: 5XiB}\n"),
              HasSubstr("limits.request: expected 64 to"));
  EXPECT_THAT(GatewayError("executors: /e\nhttp: 127.0.0.1:1\nlimits: {request: 2MiB, memory: 1MiB}\n"),
              HasSubstr("limits.request: expected no more than limits.memory"));
  EXPECT_THAT(GatewayError("executors: /e\nhttp: 127.0.0.1:1\nlimits: {memory: 1MiB}\n"),
              HasSubstr("limits.memory: expected at least limits.request, 16777216 bytes, got 1048576"));
  EXPECT_THAT(GatewayError("executors: /e\nhttp: 127.0.0.1:1\ntenants: [{name: a}, {name: a}]\n"),
              HasSubstr("duplicate name"));
  EXPECT_THAT(GatewayError("executors: /e\nhttp: 127.0.0.1:1\ntenants: []\n"),
              HasSubstr("expected 1 to 1024 tenants"));
  EXPECT_THAT(GatewayError("executors: \"\"\nhttp: 127.0.0.1:1\n"),
              HasSubstr("g.yaml:1: executors: expected the path of a UNIX socket"));
  EXPECT_THAT(GatewayError("executors: /" + std::string(107, 'x') + "\nhttp: 127.0.0.1:1\n"),
              HasSubstr("1 to 107 characters"));
  EXPECT_THAT(GatewayError("executors: /e\nhttp: \"\"\nframes: [\"127.0.0.1:1\"]\n"),
              HasSubstr("g.yaml:2: http: expected ADDRESS:PORT"));
  EXPECT_THAT(GatewayError("executors: [\n"), HasSubstr("expected YAML"));
}

TEST(GatewayConfig, AddressesAndSocketsAreCheckedWithTheirLines) {
  const std::string good = "executors: /e\nhttp: 127.0.0.1:1\n";
  const auto problem = [&](const std::string& more) { return GatewayError(good + more); };
  EXPECT_EQ(
      GatewayError("executors: /e\nhttp: localhost:80\n"),
      "g.yaml:2: http: expected ADDRESS:PORT, such as 127.0.0.1:9100 or [::1]:9100, got \"localhost:80\"");
  EXPECT_THAT(problem("health: 127.0.0.1:99999\n"), HasSubstr("g.yaml:3: health: expected ADDRESS:PORT"));
  EXPECT_THAT(problem("frames:\n  - 127.0.0.1:2\n  - nix:/x\n"),
              HasSubstr("g.yaml:5: frames[#2]: expected ADDRESS:PORT"));
  EXPECT_THAT(problem("frames: [\"unix:\"]\n"),
              HasSubstr("or unix:PATH, of at most 107 characters, got the text \"unix:\""));
  EXPECT_THAT(problem("frames: [\"unix:" + std::string(108, 'x') + "\"]\n"),
              HasSubstr("of at most 107 characters"));
  EXPECT_EQ(problem("frames: [\"unix:/e\"]\n"),
            "g.yaml:3: frames[#1]: expected a path other than that of `executors`");
  EXPECT_EQ(problem("frames: [\"unix:/f\", \"unix:/f\"]\n"), "g.yaml:3: frames[#2]: duplicate address");
  EXPECT_THAT(problem("frames: [127.0.0.1:2]\nrdma:\n  clients: here\n"),
              HasSubstr("g.yaml:5: rdma.clients: expected ADDRESS:PORT"));
  EXPECT_EQ(problem("controller:\n  state: /s\n  socket: /e\n"),
            "g.yaml:5: controller.socket: expected a path other than that of `executors`");
  EXPECT_EQ(problem("frames: [\"unix:/c\"]\ncontroller: {state: /s, socket: /c}\n"),
            "g.yaml:4: controller.socket: expected a path that is not in `frames`");
  EXPECT_THAT(problem("controller: {socket: /c, state: \"\"}\n"),
              HasSubstr("g.yaml:3: controller.state: expected the path of a file, got the text \"\""));
}

TEST(GatewayConfig, WhatShowsOnlyInUseHasItsPlaceToo) {
  const auto config = ParseGatewayConfig(
      "http: 127.0.0.1:1\nexecutors:\n  socket: /e\nframes:\n  - unix:/f\ncontroller: {socket: /c, state: "
      "/s}\n",
      "g.yaml");
  ASSERT_TRUE(config) << config.error().message;
  const Error busy{ErrorCode::kSystem, "in use"};
  EXPECT_EQ(yaml::At(config->places, "http", busy).message, "g.yaml:1: http: in use");
  EXPECT_EQ(yaml::At(config->places, "executors", busy).message, "g.yaml:3: executors.socket: in use");
  EXPECT_EQ(yaml::At(config->places, "frames[#1]", busy).message, "g.yaml:5: frames[#1]: in use");
  EXPECT_EQ(yaml::At(config->controller->places, "controller.state", busy).message,
            "g.yaml:6: controller.state: in use");
  EXPECT_EQ(yaml::At(config->places, "health", busy).message, "in use");
  EXPECT_EQ(yaml::At(config->places, "http", busy).code, ErrorCode::kSystem);
}

TEST(GatewayConfig, OneTenantOfNoTokenWhereNoneIsNamed) {
  const auto config = ParseGatewayConfig("executors: /e\nhttp: 127.0.0.1:1\n", "g.yaml");
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
  EXPECT_EQ(Authenticate(config, "", "bobs-token-x"), 1u) << "a token says whose it is";
  EXPECT_EQ(Authenticate(config, "", "nobodys-token"), std::nullopt);
  EXPECT_EQ(AuthenticateByToken(config, "bobs-token-x"), 1u);
  EXPECT_EQ(AuthenticateByToken(config, "bobs-token"), std::nullopt);
  EXPECT_EQ(AuthenticateByToken(config, ""), 2u);
}

class TokenFiles : public testing::Test {
 protected:
  TokenFiles() {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "good") << "0123456789abcdef\n";
    std::ofstream(folder_ / "short") << "abc\n";
    for (const char* name : {"good", "short"})
      std::filesystem::permissions(folder_ / name, std::filesystem::perms(0600));
  }
  ~TokenFiles() override { std::filesystem::remove_all(folder_); }
  std::string Gateway(const std::string& yaml) const { return Read(ParseGatewayConfig, yaml); }
  std::string Executor(const std::string& yaml) const { return Read(ParseExecutorConfig, yaml); }
  // The error, empty if there is none.
  template <class Parse>
  std::string Read(Parse parse, const std::string& yaml) const {
    const auto config = parse(yaml, (folder_ / "f.yaml").string());
    return config ? "" : config.error().message;
  }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("spillway-tokens-" + std::to_string(getpid()));
};

TEST_F(TokenFiles, ExecutorsOfOtherMachinesComeWithAToken) {
  const auto config = ParseGatewayConfig(
      "http: 127.0.0.1:1\nrdma: {listen: \"192.0.2.1:7410\", token_file: good, memory: 4MiB}\n",
      (folder_ / "f.yaml").string());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->executors, "");
  EXPECT_EQ(config->rdma.listen, "192.0.2.1:7410");
  EXPECT_EQ(config->rdma.token, "0123456789abcdef");
  EXPECT_EQ(config->rdma.memory, 4u << 20);
  const std::string head = "http: 127.0.0.1:1\nrdma: ";
  EXPECT_THAT(Gateway(head + "{token_file: good}"), HasSubstr("rdma.listen: expected ADDRESS:PORT"));
  EXPECT_THAT(Gateway(head + "{listen: \"192.0.2.1:2\"}"),
              HasSubstr("rdma.token_file: expected a file with the executors' token"));
  EXPECT_THAT(Gateway(head + "{listen: \"192.0.2.1:2\", token_file: short}"),
              HasSubstr("rdma.token_file: expected a file with 8 to 256 printable characters"));
  EXPECT_THAT(Gateway(head + "{listen: \"192.0.2.1:2\", token_file: good, memory: 1KiB}"),
              HasSubstr("rdma.memory: expected 1048576 to"));
}

TEST_F(TokenFiles, ClientsOfOtherMachinesNeedNoExecutorsThere) {
  const std::string head = "frames: [\"127.0.0.1:1\"]\nexecutors: /e.sock\nrdma: ";
  const auto config =
      ParseGatewayConfig(head + "{clients: \"192.0.2.1:7411\"}\n", (folder_ / "f.yaml").string());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->rdma.clients, "192.0.2.1:7411");
  EXPECT_EQ(config->rdma.listen, "");
  EXPECT_EQ(Gateway(head + "{clients: \"192.0.2.1:3\", listen: \"192.0.2.1:2\", token_file: good}"), "");
  EXPECT_THAT(Gateway(head + "{clients: \"\"}"), HasSubstr("rdma.clients: expected ADDRESS:PORT"));
  EXPECT_THAT(Gateway(head + "{clients: \"192.0.2.1:3\", listen: \"192.0.2.1:2\"}"),
              HasSubstr("rdma.token_file: expected a file with the executors' token"));
  EXPECT_THAT(Gateway("frames: [\"127.0.0.1:1\"]\nrdma: {clients: \"192.0.2.1:3\"}"),
              HasSubstr("expected executors or rdma.listen; without one no executor can connect"));
  for (const char* without : {"http: 127.0.0.1:1", "frames: [\"unix:/f.sock\"]"})
    EXPECT_THAT(Gateway(without + std::string("\nexecutors: /e.sock\nrdma: {clients: \"192.0.2.1:3\"}")),
                HasSubstr("rdma.clients: expected an ADDRESS:PORT in frames"));
}

TEST_F(TokenFiles, AnExecutorOfAnotherMachineNamesAddressAndToken) {
  const std::string tail =
      "\nname: e\ngpus: [{name: g, slices: [{name: s, gflop_per_s: 1}]}]\n"
      "models: [{name: m, kind: echo, row_bytes: 64}]\n";
  const auto config = ParseExecutorConfig("gateway: \"rdma:192.0.2.1:7410\"\ntoken_file: good" + tail,
                                          (folder_ / "f.yaml").string());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->options.gateway.address, "rdma:192.0.2.1:7410");
  EXPECT_EQ(config->options.gateway.token, "0123456789abcdef");
  EXPECT_EQ(Executor("gateway: \"rdma:[2001:db8::1]:7410\"\ntoken_file: good" + tail), "");
  EXPECT_THAT(Executor("gateway: \"rdma:192.0.2.1:7410\"" + tail),
              HasSubstr("f.yaml:1: token_file: expected a file with the gateway's token for executors"));
  EXPECT_EQ(Executor("gateway: /g.sock\ntoken_file: good" + tail), "") << "where its user is not known";
  for (const char* wrong : {"rdma:", "rdma:192.0.2.1", "rdma:192.0.2.1:0", "rdma:nic0:7410", "rdma:/g.sock",
                            "tcp:192.0.2.1:7410", "192.0.2.1:7410", "[::1]:7410", "unix:/g.sock"})
    EXPECT_THAT(Executor("gateway: \"" + std::string(wrong) + "\"\ntoken_file: good" + tail),
                HasSubstr("f.yaml:1: gateway: expected the path of the gateway's socket for executors, or "
                          "rdma:ADDRESS:PORT, got"))
        << wrong;
}

TEST_F(TokenFiles, WhereInputsLieIsAskedOfExecutorsOnGpus) {
  const std::string far = "gateway: \"rdma:192.0.2.1:7410\"\ntoken_file: good\n", here = "gateway: /g.sock\n";
  const std::string tail =
      "\nname: e\ngpus: [{name: g, slices: [{name: s, gflop_per_s: 1}]}]\n"
      "models: [{name: m, kind: echo, row_bytes: 64}]\n";
  const auto memory = [&](const std::string& head) {
    const auto config = ParseExecutorConfig(head + tail, (folder_ / "f.yaml").string());
    EXPECT_TRUE(config) << head;
    return config ? config->options.memory : InputMemory{-1};
  };
  EXPECT_EQ(memory(far), InputMemory::kHost) << "it has no GPU";
  EXPECT_EQ(memory(far + "engine: cuda"), InputMemory::kAuto);
  EXPECT_EQ(memory(here + "engine: cuda"), InputMemory::kAuto);
  EXPECT_EQ(memory(far + "engine: cuda\nmemory: auto"), InputMemory::kAuto);
  EXPECT_EQ(memory(far + "engine: cuda\nmemory: gpu"), InputMemory::kGpu);
  EXPECT_EQ(memory(far + "engine: cuda\nmemory: host"), InputMemory::kHost);
  EXPECT_THAT(Executor(far + "engine: cuda\nmemory: card" + tail),
              HasSubstr("f.yaml:4: memory: expected one of"));
  EXPECT_THAT(Executor(far + "memory: auto" + tail), HasSubstr("memory: allowed only with engine: cuda"));
  EXPECT_THAT(Executor(here + "engine: cuda\nmemory: gpu" + tail),
              HasSubstr("f.yaml:3: memory: gpu: expected gateway: rdma:ADDRESS:PORT"));
}

// Secrets of Kubernetes are 0640 or 0440, of root and the pod's group; credentials of systemd are 0440.
TEST_F(TokenFiles, MayBeReadByTheirGroupButNotByOthers) {
  using std::filesystem::perms;
  const std::string yaml = "executors: /e\nhttp: 127.0.0.1:1\ntenants: [{name: a, token_file: good}]";
  for (const perms wrong : {perms::others_read, perms::others_write, perms::group_write}) {
    std::filesystem::permissions(folder_ / "good", perms::owner_read | perms::owner_write | wrong);
    EXPECT_THAT(Gateway(yaml),
                HasSubstr("tenants[a].token_file: expected a file that others may not read and its group may "
                          "not write, such as mode 0640 or 0600, got mode 06"));
  }
  for (const int right : {0400, 0440, 0600, 0640}) {
    std::filesystem::permissions(folder_ / "good", perms(right));
    EXPECT_EQ(Gateway(yaml), "") << right;
  }
}

TEST_F(TokenFiles, TenantsTokensLieBesideTheFile) {
  const std::string head = "executors: /e\nhttp: 127.0.0.1:1\ntenants: [{name: a, token_file: ";
  const auto config = ParseGatewayConfig(head + "good}]", (folder_ / "f.yaml").string());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->tokens[0], "0123456789abcdef");
  EXPECT_THAT(Gateway(head + "short}]"), HasSubstr("expected a file with 8 to 256 printable characters"));
  EXPECT_THAT(Gateway(head + "none}]"), HasSubstr("expected a readable file"));
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

TEST(GatewayConfig, SaysWhoMayOfferSlices) {
  const auto plain = ParseGatewayConfig("http: 127.0.0.1:1\nexecutors: /e\n", "g.yaml");
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->executor_trust.users, (std::vector<uint32_t>{0, geteuid()}));
  EXPECT_EQ(plain->executor_trust.group, std::nullopt);
  const auto named = ParseGatewayConfig(
      "http: 127.0.0.1:1\nexecutors: {socket: /e, users: [root, 4711], group: root}\n", "g.yaml");
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_EQ(named->executors, "/e");
  EXPECT_EQ(named->executor_trust.users, (std::vector<uint32_t>{0, 4711}));
  EXPECT_EQ(named->executor_trust.group, 0u);
  EXPECT_THAT(GatewayError("http: 127.0.0.1:1\nexecutors: {users: [no-such-user-here]}\n"),
              HasSubstr("expected a user of this machine or a number"));
}

TEST(GatewayConfig, SharesReserves) {
  const std::string head = "executors: /e\nhttp: 127.0.0.1:1\nlimits: {memory: 64MiB, windows: 64MiB}\n";
  const auto one = ParseGatewayConfig(head, "g.yaml");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->broker.tenants[0].reserve, 0u);
  EXPECT_EQ(one->broker.front_reserves[0], 0u);
  const auto two = ParseGatewayConfig(head +
                                          "frames: [127.0.0.1:2]\nhealth: 127.0.0.1:3\ndrain: {serve: "
                                          "2s}\ntenants: [{name: a}, {name: b, reserve: 1MiB}]\n",
                                      "g.yaml");
  ASSERT_TRUE(two) << two.error().message;
  EXPECT_EQ(two->broker.tenants[0].reserve, 8u << 20) << "its part of a quarter";
  EXPECT_EQ(two->broker.tenants[1].reserve, 1u << 20);
  EXPECT_EQ(two->broker.tenants[1].windows_reserve, 16u << 20);
  EXPECT_EQ(two->broker.front_reserves[1], 8u << 20);
  EXPECT_EQ(two->health, "127.0.0.1:3");
  EXPECT_EQ(two->drain_serve, 2s);
  EXPECT_THAT(GatewayError(head + "tenants: [{name: a, reserve: 60MiB}]\n"),
              HasSubstr("expected reserves of at most three quarters of limits.memory"));
}

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
  EXPECT_EQ(config->places[1].where, "e.yaml:6: gpus[a].slices[s1]");
  EXPECT_EQ(config->places[4].where, "e.yaml:10: gpus[c].slices[s1]");
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
  EXPECT_THAT(placed("emulated", "device: 0"), HasSubstr("device: allowed only with engine: cuda"));
  EXPECT_THAT(placed("cuda", "device: gpu0"),
              HasSubstr("expected an index as in nvidia-smi, GPU-UUID or MIG-UUID"));
  EXPECT_THAT(placed("cuda", "sm_percent: 101"), HasSubstr("expected a whole number from 1 to 100"));
  EXPECT_THAT(ExecutorError(head + "models: [{name: m, kind: tree}]\n"), HasSubstr("expected one of echo"));
  EXPECT_THAT(ExecutorError(head + "models: [{name: m, kind: mlp, layers: [5]}]\n"),
              HasSubstr("expected 2 to 64 widths"));
  EXPECT_THAT(ExecutorError(head + "models: [{name: m, kind: echo, row_bytes: 8, layers: [1, 2]}]\n"),
              HasSubstr("allowed only for a model of kind mlp"));
  EXPECT_THAT(ExecutorError(head + "models: [{name: m, kind: echo, row_bytes: 1000000, rows: 64}]\n"),
              HasSubstr("to fit into a cell"));
  EXPECT_THAT(
      ExecutorError("gateway: /e\nname: h\ngpus: []\nmodels: [{name: m, kind: echo, row_bytes: 8}]\n"),
      HasSubstr("expected 1 to 64 slices"));
}

}  // namespace
}  // namespace spillway::gateway
