// SPDX-License-Identifier: Apache-2.0
// Per-connection consistency (PCC): some six hundred flows ask all the while, and whatever is done to the
// switch, none changes its unit and no connection breaks. Flows of a unit that is taken away are excepted.
#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <thread>

#include "bed.h"
#include "cases.h"
#include "core/half_open.h"
#include "flow_set.h"
#include "model/yaml.h"
#include "report_sender.h"
#include "syn_flood.h"

namespace spillway::e2e {
namespace {

constexpr size_t kConnections = 200;  // per mode
constexpr size_t kDatagramFlows = 100;
// Answers that each flow must get: after each change, and after the last. They take 30 ms each, of some six hundred flows.
constexpr uint64_t kFew = 6, kMore = 20;

class Consistency : public testing::TestWithParam<int> {
 protected:
  // Units of the plan: s1 and s2 with cpu, nic, gpu; s3 with cpu.
  void SetUp() override {
    SPW_SKIP_WITHOUT();
    lab::TestbedSpec spec =
        TwoModes("pcc", GetParam(), {{model::Protocol::kTcp, kEchoPort}, {model::Protocol::kUdp, kEchoPort}});
    for (const char* server : {"s1", "s2"})
      spec.servers.push_back(
          ServerOf(server, {{"cpu", SPW_KIND_CPU}, {"nic", SPW_KIND_SMARTNIC}, {"gpu", SPW_KIND_GPU}}));
    spec.servers.push_back(ServerOf("s3", {{"cpu", SPW_KIND_CPU}}));
    bed_ = beds_.Get(spec);
    ASSERT_NE(bed_, nullptr) << beds_.error();
    const auto echoes = bed_->StartEchoes();
    ASSERT_TRUE(echoes) << echoes.error().message;
    const Ran ran = bed_->Apply(Full());  // whatever the test before left
    ASSERT_EQ(ran.exit, 0) << ran.err;
  }

  void TearDown() override {
    if (flows_ && !HasFatalFailure()) ExpectAllGoOn("the test", kMore);
    // A testbed that a test left unusable is not handed to the next.
    flows_.reset();
    if (HasFatalFailure()) beds_.Drop(bed_);
  }
  static void TearDownTestSuite() { beds_.Clear(); }

  model::Config Full() const { return bed_->config(); }
  // Without s2/gpu, and without s3.
  model::Config Small() const {
    model::Config config = Full();
    config.pools[0].servers[1].units.pop_back();
    config.pools[0].servers.pop_back();
    return config;
  }

  void OpenFlows(size_t connections = kConnections, size_t datagram_flows = kDatagramFlows) {
    if (!flows_) flows_ = std::make_unique<FlowSet>(bed_->plan().client_netns);
    for (const model::Service& service : Full().services) {
      flows_->Open(model::Protocol::kTcp, service.vip, kEchoPort, connections);
      flows_->Open(model::Protocol::kUdp, service.vip, kEchoPort, datagram_flows);
    }
  }
  void OpenMore() { OpenFlows(20, 10); }

  // All flows, those opened since included, go on where they are.
  void ExpectAllGoOn(const std::string& after, uint64_t answers = kFew) {
    SCOPED_TRACE("after: " + after);
    ASSERT_TRUE(flows_->AwaitProgress(answers)) << flows_->Stuck() << flows_->Tally().example;
    const FlowTally tally = flows_->Tally();
    ASSERT_EQ(tally.moved, 0u) << tally.example;
    ASSERT_EQ(tally.broken, 0u) << tally.example;
    ASSERT_EQ(tally.unheard, 0u);
  }

  void Start() {
    OpenFlows();
    ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn("the start"));
  }

  void Do(const std::vector<std::string>& words) {
    const Ran ran = bed_->Cli(words);
    ASSERT_EQ(ran.exit, 0) << fmt::format("{}", words.back()) << ": " << ran.err;
    OpenMore();
    ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn(words.back()));
  }

  void Apply(const model::Config& config, const std::string& what) {
    const Ran ran = bed_->Apply(config);
    ASSERT_EQ(ran.exit, 0) << what << ": " << ran.err;
    OpenMore();
    ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn(what));
  }

  static inline SharedBeds beds_;
  Bed* bed_ = nullptr;
  std::unique_ptr<FlowSet> flows_;
};

TEST_P(Consistency, AddedUnitsTakeNoFlowAway) {
  ASSERT_EQ(bed_->Apply(Small()).exit, 0);
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_EQ(flows_->PerUnit().count("s2-gpu") + flows_->PerUnit().count("s3-cpu"), 0u);

  model::Config with_unit = Small();
  with_unit.pools[0].servers[1] = Full().pools[0].servers[1];
  ASSERT_NO_FATAL_FAILURE(Apply(with_unit, "unit s2/gpu added"));
  ASSERT_NO_FATAL_FAILURE(Apply(Full(), "server s3 added"));

  OpenFlows();
  ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn("as many flows again"));
  EXPECT_GT(flows_->PerUnit()["s2-gpu"], 0u);
  EXPECT_GT(flows_->PerUnit()["s3-cpu"], 0u);
}

TEST_P(Consistency, DrainedUnitKeepsItsFlowsAndGetsNoMore) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const size_t before = flows_->PerUnit()["s1-nic"];
  ASSERT_GT(before, 0u);

  ASSERT_NO_FATAL_FAILURE(Do({"drain", "lab/s1/nic"}));
  EXPECT_EQ(flows_->PerUnit()["s1-nic"], before);
  ASSERT_NO_FATAL_FAILURE(Do({"drain", "--undo", "lab/s1/nic"}));
  OpenFlows();
  ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn("as many flows again"));
  EXPECT_GT(flows_->PerUnit()["s1-nic"], before);
}

TEST_P(Consistency, RemovedUnitsLeaveTheFlowsOfOthersAlone) {
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_GT(flows_->Except("s2-gpu"), 0u);
  ASSERT_GT(flows_->Except("s3-cpu"), 0u);

  ASSERT_NO_FATAL_FAILURE(Apply(Small(), "unit s2/gpu and server s3 removed"));
  EXPECT_EQ(flows_->PerUnit()["s2-gpu"], 0u);
  EXPECT_EQ(flows_->PerUnit()["s3-cpu"], 0u);
  ASSERT_NO_FATAL_FAILURE(Apply(Full(), "both added again"));
}

TEST_P(Consistency, PolicyChangesMoveNoFlow) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto of_both = [&](const std::string& change) {
    ASSERT_EQ(bed_->Cli({"set", "service", "nat", change}).exit, 0) << "nat: " << change;
    Do({"set", "service", "dsr", change});
  };
  for (int policy = 0; policy < SPW_UNIT_POLICIES; policy++)
    ASSERT_NO_FATAL_FAILURE(of_both("unit_policy=" + model::ToString(static_cast<spw_unit_policy>(policy))));
  for (int policy = 0; policy < SPW_SERVER_POLICIES; policy++)
    ASSERT_NO_FATAL_FAILURE(
        of_both("server_policy=" + model::ToString(static_cast<spw_server_policy>(policy))));
}

// A report of every unit a millisecond, busy and available in turn, out of step between units.
class Flipper {
 public:
  Flipper(std::vector<ReportSender*> senders, uint8_t units)
      : thread_([this, senders, units] { Loop(senders, units); }) {}
  ~Flipper() {
    stop_ = true;
    thread_.join();
  }

 private:
  void Loop(const std::vector<ReportSender*>& senders, uint8_t units) {
    timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (unsigned beat = 0; !stop_; beat++) {
      for (size_t s = 0; s < senders.size(); s++)
        for (uint8_t u = 0; u < units; u++) {
          const bool busy = (beat + u + s) % 2 == 0;
          senders[s]->Send(senders[s]->Make(u, busy, busy ? 200 : 20, busy ? 50 : 1));
        }
      next.tv_nsec += 1'000'000;
      if (next.tv_nsec >= 1'000'000'000) next.tv_sec++, next.tv_nsec -= 1'000'000'000;
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
    }
  }

  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST_P(Consistency, ReportsThatFlipAThousandTimesASecondMoveNoFlow) {
  for (const char* service : {"nat", "dsr"})
    ASSERT_EQ(bed_->Cli({"set", "service", service, "unit_policy=p4mite"}).exit, 0);
  std::vector<std::unique_ptr<ReportSender>> senders;
  std::vector<ReportSender*> borrowed;
  for (size_t server : {0, 1}) {
    auto sender = ReportSender::Open(bed_->plan(), server);
    ASSERT_TRUE(sender) << sender.error().message;
    senders.push_back(std::move(*sender));
    borrowed.push_back(senders.back().get());
  }
  ASSERT_NO_FATAL_FAILURE(Start());
  const uint64_t accepted = bed_->Counter("reports_accepted"), inserted = bed_->Counter("flows_inserted");
  {
    const Flipper flipper(borrowed, 3);
    // Every handshake of these meets a flip.
    for (const char* policy : {"p4mite", "least-loaded"}) {
      for (const char* service : {"nat", "dsr"})
        ASSERT_EQ(bed_->Cli({"set", "service", service, fmt::format("unit_policy={}", policy)}).exit, 0);
      OpenFlows();
      ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn(policy));
    }
    // Two seconds' worth of both servers' three units.
    ASSERT_TRUE(Eventually([&] { return bed_->Counter("reports_accepted") >= accepted + 2 * 6 * 1000; }));
    ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn("two seconds of it"));
  }
  EXPECT_EQ(bed_->Counter("reports_forged"), 0u);
  EXPECT_GT(bed_->Counter("flows_inserted"), inserted);  // the policy did place flows off the ring
}

TEST_P(Consistency, SynFloodMakesTheSwitchForgetNoConnection) {
  // In turn, so that most connections are off the ring and only memory knows where.
  for (const char* service : {"nat", "dsr"})
    ASSERT_EQ(bed_->Cli({"set", "service", service, "unit_policy=wrr"}).exit, 0);
  ASSERT_NO_FATAL_FAILURE(Start());
  const uint64_t new_flows = bed_->Counter("new_flows");
  // More than the half-open table holds; what queues dropped is sent anew.
  constexpr uint64_t kGoal = 2 * SPW_HALF_OPEN_BUCKETS * SPW_HALF_OPEN_WAYS;
  uint32_t sent = 0;
  ASSERT_TRUE(Eventually([&] {
    constexpr uint32_t kRound = 4096;
    const auto flooded = FloodSyns(bed_->plan(), Full().services[0].vip, kEchoPort, sent, kRound);
    EXPECT_TRUE(flooded) << flooded.error().message;
    sent += kRound;
    return !flooded || bed_->Counter("new_flows") >= new_flows + kGoal;
  })) << bed_->Counter("new_flows") - new_flows
      << " of " << sent;
  ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn("the flood"));
}

TEST_P(Consistency, KilledDaemonLeavesTrafficFlowingAndTheNextOneAdopts) {
  ASSERT_NO_FATAL_FAILURE(Start());
  // Deviating flows too: their memory must outlive the daemon.
  ASSERT_NO_FATAL_FAILURE(Do({"set", "service", "nat", "unit_policy=wrr"}));
  const uint64_t new_flows = bed_->Counter("new_flows");

  bed_->Signal(SIGKILL);
  ASSERT_EQ(bed_->AwaitExit(), 128 + SIGKILL);
  ASSERT_FALSE(bed_->ApiAnswers());
  OpenMore();
  ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn("spillwayd killed, new flows in the gap"));

  const auto started = bed_->StartDaemon();
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_EQ(bed_->Show("status").at("adopted"), true);
  EXPECT_GE(bed_->Counter("new_flows"), new_flows) << "counters go on";
  OpenMore();
  ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn("spillwayd started again"));
}

TEST_P(Consistency, ReloadTakesANewFileAndMovesNoFlow) {
  ASSERT_NO_FATAL_FAILURE(Start());
  model::Config config = Full();
  for (model::Service& service : config.services) service.unit_policy = SPW_UNIT_HOST_ONLY;
  config.pools[0].servers[0].units[0].capacity = 7;
  bed_->WritePoolFile(model::ToYaml(config));
  bed_->Signal(SIGHUP);
  ASSERT_TRUE(Eventually([&] { return bed_->Unit("s1", "cpu").at("capacity") == 7; })) << bed_->DaemonLog();
  for (const auto& service : bed_->Show("services")) EXPECT_EQ(service.at("unit_policy"), "host-only");
  OpenMore();
  ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn("reload"));
  bed_->WritePoolFile(model::ToYaml(Full()));
}

TEST_P(Consistency, ReloadRefusesABrokenFileAndKeepsTheOldOne) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const std::string before = bed_->Cli({"show", "config"}).out;
  bed_->WritePoolFile("switch:\n  interfaces: [client]\nservices:\n  - {name: web, vip: not-an-address}\n");
  bed_->Signal(SIGHUP);
  ASSERT_TRUE(Eventually([&] { return bed_->Show("status").at("last_apply_ok") == false; }));
  EXPECT_EQ(bed_->Cli({"show", "config"}).out, before);
  EXPECT_NE(bed_->DaemonLog().find("pool.yaml:4: "), std::string::npos) << bed_->DaemonLog();
  OpenMore();
  ASSERT_NO_FATAL_FAILURE(ExpectAllGoOn("a reload refused"));

  bed_->WritePoolFile(model::ToYaml(Full()));
  bed_->Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return bed_->Show("status").at("last_apply_ok") == true; }));
}

INSTANTIATE_TEST_SUITE_P(Ip, Consistency, testing::Values(4, 6), FamilyName);

}  // namespace
}  // namespace spillway::e2e
