// SPDX-License-Identifier: Apache-2.0
// spillwayd killed at random moments, while it starts and while it takes over another pool file, again and
// again under traffic: no established flow changes its unit, no connection breaks, and each start goes on
// from what the killed one left. The crash tests at chosen points of a change are
// tests/packet/switch/crash_test.cc.
//
// SPILLWAY_KILLS: how many; the run with 1,000 has the label `soak`. SPILLWAY_SEED: to repeat a run's
// choices.
#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <cstdlib>
#include <random>

#include "bed.h"
#include "cases.h"
#include "flow_set.h"
#include "model/yaml.h"

namespace spillway::e2e {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kConnections = 100, kDatagramFlows = 50;  // per mode
constexpr int kLookEvery = 10;  // kills, after which every flow must have got answers

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class Kills : public testing::Test {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT();
    lab::TestbedSpec spec =
        TwoModes("kills", 4, {{model::Protocol::kTcp, kEchoPort}, {model::Protocol::kUdp, kEchoPort}});
    spec.servers.push_back(
        ServerOf("s1", {{"cpu", SPW_KIND_CPU}, {"nic", SPW_KIND_SMARTNIC}, {"gpu", SPW_KIND_GPU}}));
    spec.servers.push_back(
        ServerOf("s2", {{"cpu", SPW_KIND_CPU}, {"nic", SPW_KIND_SMARTNIC}, {"gpu", SPW_KIND_GPU}}));
    spec.servers.push_back(ServerOf("s3", {{"cpu", SPW_KIND_CPU}}));
    bed_ = beds_.Get(spec);
    ASSERT_NE(bed_, nullptr) << beds_.error();
    const auto echoes = bed_->StartEchoes();
    ASSERT_TRUE(echoes) << echoes.error().message;
  }
  void TearDown() override { flows_.reset(); }
  static void TearDownTestSuite() { beds_.Clear(); }

  // Without unit s2/gpu, and without server s3: no flow is on these.
  model::Config Small() const {
    model::Config config = bed_->config();
    config.pools[0].servers[1].units.pop_back();
    config.pools[0].servers.pop_back();
    return config;
  }
  // Other policies and capacities; s2/gpu and s3 there or not.
  model::Config AnyConfig() {
    model::Config config = bed_->config();
    for (model::Service& service : config.services) {
      service.unit_policy = static_cast<spw_unit_policy>(Dice(SPW_UNIT_POLICIES));
      service.server_policy = static_cast<spw_server_policy>(Dice(SPW_SERVER_POLICIES));
    }
    if (Dice(2) == 0) config.pools[0].servers[1].units.pop_back();
    if (Dice(2) == 0) config.pools[0].servers.pop_back();
    for (model::Server& server : config.pools[0].servers)
      for (model::Unit& unit : server.units) unit.capacity = 1 + Dice(8);
    return config;
  }

  uint32_t Dice(uint32_t sides) { return static_cast<uint32_t>(random_() % sides); }

  void KillWithin(Clock::duration most) {
    const auto at = std::chrono::nanoseconds(most) * (random_() % 1000) / 1000;
    const timespec wait{static_cast<time_t>(at.count() / 1'000'000'000),
                        static_cast<long>(at.count() % 1'000'000'000)};
    nanosleep(&wait, nullptr);
    ASSERT_TRUE(lab::IsAlive(bed_->daemon())) << "it ended by itself: " << bed_->DaemonLog();
    bed_->Signal(SIGKILL);
    ASSERT_EQ(bed_->AwaitExit(), 128 + SIGKILL) << bed_->DaemonLog();
  }

  void ExpectAllGoOn(const std::string& after) {
    ASSERT_TRUE(flows_->AwaitProgress(3)) << after << ": " << flows_->Stuck();
    const FlowTally tally = flows_->Tally();
    ASSERT_EQ(tally.moved, 0u) << after << ": " << tally.example;
    ASSERT_EQ(tally.broken, 0u) << after << ": " << tally.example;
  }

  static inline SharedBeds beds_;
  Bed* bed_ = nullptr;
  std::mt19937_64 random_;
  std::unique_ptr<FlowSet> flows_;
};

TEST_F(Kills, AtAnyMomentMoveNoEstablishedFlow) {
  const uint64_t kills = FromEnvironment("SPILLWAY_KILLS", 30);
  const uint64_t seed = FromEnvironment("SPILLWAY_SEED", std::random_device()());
  SCOPED_TRACE(fmt::format("SPILLWAY_SEED={}", seed));
  random_.seed(seed);
  ASSERT_EQ(bed_->Apply(Small()).exit, 0);
  flows_ = std::make_unique<FlowSet>(bed_->plan().client_netns);
  // Half of the connections placed in turn, so that only memory knows where they are.
  for (const char* policy : {"ecmp", "wrr"}) {
    for (const model::Service& service : bed_->config().services) {
      ASSERT_EQ(bed_->Cli({"set", "service", service.name, fmt::format("unit_policy={}", policy)}).exit, 0);
      flows_->Open(model::Protocol::kTcp, service.vip, kEchoPort, kConnections / 2);
      flows_->Open(model::Protocol::kUdp, service.vip, kEchoPort, kDatagramFlows / 2);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn(policy));
  }

  // How long a start takes here.
  ASSERT_NO_FATAL_FAILURE(KillWithin(Clock::duration(1)));
  const auto began = Clock::now();
  auto started = bed_->StartDaemon();
  ASSERT_TRUE(started) << started.error().message;
  const auto start = Clock::now() - began;
  ASSERT_NO_FATAL_FAILURE(KillWithin(Clock::duration(1)));

  for (uint64_t kill = 1; kill <= kills; kill++) {
    SCOPED_TRACE(fmt::format("kill {}", kill));
    bed_->WritePoolFile(model::ToYaml(AnyConfig()));
    if (kill % 3 != 0) {
      // While it takes over what the last one left, and changes it.
      started = bed_->LaunchDaemon();
      ASSERT_TRUE(started) << started.error().message;
    } else {
      // While it changes what it runs.
      started = bed_->StartDaemon();
      ASSERT_TRUE(started) << started.error().message;
      ASSERT_EQ(bed_->Show("status").at("adopted"), true);
      bed_->WritePoolFile(model::ToYaml(AnyConfig()));
      bed_->Signal(SIGHUP);
    }
    ASSERT_NO_FATAL_FAILURE(KillWithin(start));
    if (kill % kLookEvery == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn("it was killed"));
    }
  }
  bed_->WritePoolFile(model::ToYaml(bed_->config()));
  started = bed_->StartDaemon();
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_EQ(bed_->Show("status").at("adopted"), true);
  ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn("the last start"));
  for (const model::Service& service : bed_->config().services)
    flows_->Open(model::Protocol::kTcp, service.vip, kEchoPort, kConnections);
  ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn("new flows"));
  RecordProperty("kills", static_cast<int>(kills));
  fmt::print("{} kills within {} ms of each start, seed {}: {} flows, {} answers, moved {}, broken {}\n",
             kills, std::chrono::duration_cast<std::chrono::milliseconds>(start).count(), seed,
             flows_->Tally().flows, flows_->Tally().answers, flows_->Tally().moved, flows_->Tally().broken);
}

}  // namespace
}  // namespace spillway::e2e
