// SPDX-License-Identifier: Apache-2.0
// From a unit's load to where new flows go: agents, their reports, and what the switch makes of both.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <nlohmann/json.hpp>

#include "bed.h"
#include "cases.h"
#include "flow_set.h"
#include "lab/unit/wire.h"
#include "report_sender.h"

namespace spillway::e2e {
namespace {

using std::chrono::milliseconds;

// One server, whose CPU is three times its NIC; p4mite.
lab::TestbedSpec CpuAndNic(const std::string& name, int family) {
  lab::TestbedSpec spec =
      TwoModes(name, family, {{model::Protocol::kTcp, kEchoPort}, {model::Protocol::kUdp, kEchoPort}});
  for (lab::ServiceSpec& service : spec.services) service.unit_policy = SPW_UNIT_P4MITE;
  spec.servers.push_back(ServerOf("s1", {{"cpu", SPW_KIND_CPU}, {"nic", SPW_KIND_SMARTNIC}}));
  spec.servers[0].units[0].capacity = 3;
  return spec;
}

class Reports : public testing::TestWithParam<int> {
 protected:
  void Up(const lab::TestbedSpec& spec, milliseconds silent_after,
          const std::vector<std::string>& echo = {}) {
    auto up = Bed::Up(spec);
    ASSERT_TRUE(up) << up.error().message;
    bed_ = std::move(*up);
    model::Config config = bed_->config();
    config.data_plane.report->silent_after_ms = static_cast<uint32_t>(silent_after.count());
    const Ran ran = bed_->Apply(config);
    ASSERT_EQ(ran.exit, 0) << ran.err;
    const auto echoes = bed_->StartEchoes(echo);
    ASSERT_TRUE(echoes) << echoes.error().message;
    flows_ = std::make_unique<FlowSet>(bed_->plan().client_netns);
  }
  void TearDown() override { flows_.reset(); }

  void OpenFlows(size_t each) {
    for (const model::Service& service : bed_->config().services)
      for (const auto protocol : {model::Protocol::kTcp, model::Protocol::kUdp})
        flows_->Open(protocol, service.vip, kEchoPort, each);
  }
  // Where `4 * each` new flows go: {cpu, nic}.
  void PlaceNew(size_t each, std::pair<size_t, size_t>& placed) {
    auto before = flows_->PerUnit();
    OpenFlows(each);
    ASSERT_TRUE(flows_->AwaitProgress(1)) << flows_->Stuck() << flows_->Tally().example;
    auto after = flows_->PerUnit();
    placed = {after["s1-cpu"] - before["s1-cpu"], after["s1-nic"] - before["s1-nic"]};
  }
  void ExpectNoFlowMoved() {
    EXPECT_EQ(flows_->Tally().moved + flows_->Tally().broken, 0u) << flows_->Tally().example;
  }

  // The unit's processes of this name, told by /proc.
  std::vector<lab::ProcessId> ProcessesOf(const std::string& label, const std::string& program) {
    std::vector<lab::ProcessId> found;
    for (const lab::UnitPlan& unit : bed_->plan().units) {
      if (unit.label != label) continue;
      for (const lab::ProcessId& id : lab::ProcessesIn(unit.netns))
        if (ReadFile(fmt::format("/proc/{}/comm", id.pid)) == program.substr(0, 15) + "\n")
          found.push_back(id);
    }
    return found;
  }

  std::unique_ptr<Bed> bed_;
  std::unique_ptr<FlowSet> flows_;
};

using Placed = std::pair<size_t, size_t>;

class AgentReports : public Reports {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT();
    lab::TestbedSpec spec = CpuAndNic("agt", GetParam());
    spec.agent.run = true;
    spec.agent.threshold = milliseconds(500);
    // Each answer takes a fifth of the threshold.
    ASSERT_NO_FATAL_FAILURE(Up(spec, milliseconds(1000), {"--extra-latency", "100ms"}));
  }
  bool AwaitUnit(const std::string& unit, const std::function<bool(const nlohmann::json&)>& holds) {
    return Eventually([&] { return holds(bed_->Unit("s1", unit)); });
  }
};

TEST_P(AgentReports, ShowTheLoadUntilTheAgentDiesAndCapacityDecides) {
  for (const char* unit : {"cpu", "nic"})
    ASSERT_TRUE(AwaitUnit(unit, [](const auto& u) { return u.at("silent") == false; }));
  OpenFlows(10);
  ASSERT_TRUE(flows_->AwaitProgress(5)) << flows_->Stuck();
  // Both heard, the CPU available: p4mite gives all to the CPU.
  EXPECT_EQ(flows_->PerUnit()["s1-cpu"], 40u);
  EXPECT_TRUE(AwaitUnit("cpu", [](const auto& u) {
    // 100 ms of 500 is level 26; a busy machine adds to it. 40 flows wait 100 ms and think 10.
    return u.at("silent") == false && u.at("busy") == false && u.at("level") >= 24 && u.at("level") < 128 &&
           u.at("latency_us") >= 95'000 && u.at("queue") >= 20 && u.at("queue") <= 40;
  })) << bed_->Unit("s1", "cpu").dump();
  EXPECT_TRUE(AwaitUnit("nic", [](const auto& u) { return u.at("silent") == false && u.at("queue") == 0; }))
      << bed_->Unit("s1", "nic").dump();

  const auto agents = ProcessesOf("s1-nic", "spillway-agent");
  ASSERT_EQ(agents.size(), 1u);
  kill(agents[0].pid, SIGKILL);
  EXPECT_TRUE(AwaitUnit("nic", [](const auto& u) { return u.at("silent") == true; }));
  // The data plane places by the coarse clock, which lags behind by a tick, by more where a CPU was taken
  // away.
  ASSERT_TRUE(AwaitUnit("nic", [](const auto& u) { return u.at("report_age_ms") >= 1500; }));
  EXPECT_EQ(bed_->Unit("s1", "cpu").at("silent"), false);

  // A quarter of the capacity is silent and takes a quarter of the flows; turns keep shares to within a few.
  Placed placed;
  ASSERT_NO_FATAL_FAILURE(PlaceNew(20, placed));
  EXPECT_NEAR(static_cast<double>(placed.second), 20, 4);
  EXPECT_EQ(placed.first + placed.second, 80u);
  ExpectNoFlowMoved();
}

TEST_P(AgentReports, OfABusyCpuSendNewFlowsToTheNicAndBackAgain) {
  Placed placed;
  for (const char* unit : {"cpu", "nic"})
    ASSERT_TRUE(AwaitUnit(unit, [](const auto& u) { return u.at("silent") == false; }));
  ASSERT_NO_FATAL_FAILURE(PlaceNew(5, placed));
  EXPECT_EQ(placed, Placed(20, 0));

  // The CPU unit's server hangs.
  const auto servers = ProcessesOf("s1-cpu", "spillway-unit");
  ASSERT_EQ(servers.size(), 1u);
  kill(servers[0].pid, SIGSTOP);
  const bool busy = AwaitUnit("cpu", [](const auto& u) { return u.at("busy") == true; });
  auto before = flows_->PerUnit();
  OpenFlows(5);
  const bool heard = Eventually([&] { return flows_->PerUnit()["s1-nic"] == before["s1-nic"] + 20; });
  kill(servers[0].pid, SIGCONT);
  ASSERT_TRUE(busy) << bed_->Unit("s1", "cpu").dump();
  EXPECT_TRUE(heard) << flows_->PerUnit()["s1-nic"] << " of 20 new flows on the NIC";

  ASSERT_TRUE(AwaitUnit("cpu", [](const auto& u) { return u.at("busy") == false && u.at("level") < 64; }))
      << bed_->Unit("s1", "cpu").dump();
  ASSERT_NO_FATAL_FAILURE(PlaceNew(5, placed));
  EXPECT_EQ(placed, Placed(20, 0));
  ASSERT_TRUE(flows_->AwaitProgress(3)) << flows_->Stuck();
  ExpectNoFlowMoved();
}

INSTANTIATE_TEST_SUITE_P(Ip, AgentReports, testing::Values(4, 6), FamilyName);

class ReportsOnTheWire : public Reports {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT();
    // Far off: a slow machine must not make units silent between a report and what is expected of it.
    ASSERT_NO_FATAL_FAILURE(Up(CpuAndNic("rep", GetParam()), std::chrono::minutes(30)));
    auto sender = ReportSender::Open(bed_->plan(), 0);
    ASSERT_TRUE(sender) << sender.error().message;
    sender_ = std::move(*sender);
  }

  void Send(const spw_report_wire& wire, const std::string& counter, size_t bytes = sizeof(spw_report_wire)) {
    const uint64_t before = bed_->Counter(counter);
    ASSERT_TRUE(sender_->Send(wire, bytes));
    ASSERT_TRUE(Eventually([&] { return bed_->Counter(counter) == before + 1; })) << counter << "\n"
                                                                                  << bed_->Cli({"stats"}).out;
  }
  bool CpuIsBusy() { return bed_->Unit("s1", "cpu").at("busy").get<bool>(); }

  std::unique_ptr<ReportSender> sender_;
};

TEST_P(ReportsOnTheWire, ForgedReplayedAndForeignOnesAreCountedAndIgnored) {
  const spw_report_wire available = sender_->Make(0, false, 10, 3);
  Send(available, "reports_accepted");
  EXPECT_FALSE(CpuIsBusy());
  EXPECT_EQ(bed_->Unit("s1", "cpu").at("queue"), 3);
  Send(sender_->Make(0, true, 200, 40), "reports_accepted");
  EXPECT_TRUE(CpuIsBusy());

  Send(available, "reports_stale");
  Send(sender_->Forge(0, false), "reports_forged");
  spw_report_wire altered = sender_->Make(0, true);
  altered.flags = 0;
  Send(altered, "reports_forged");
  Send(sender_->Make(5, false), "reports_unknown_unit");
  Send(sender_->Make(0, false), "reports_malformed", sizeof(spw_report_wire) - 1);
  spw_report_wire foreign = sender_->Make(0, false);
  foreign.version++;
  Send(foreign, "reports_other_version");

  EXPECT_TRUE(CpuIsBusy());
  EXPECT_EQ(bed_->Unit("s1", "cpu").at("level"), 200);
  EXPECT_EQ(bed_->Unit("s1", "cpu").at("queue"), 40);
  EXPECT_EQ(bed_->Unit("s1", "nic").at("silent"), true);
  Send(sender_->Make(0, false), "reports_accepted");
  EXPECT_FALSE(CpuIsBusy());
}

TEST_P(ReportsOnTheWire, BusyCpuSendsNewFlowsToTheNicAndAvailableTakesThemBack) {
  Placed placed;
  Send(sender_->Make(0, false), "reports_accepted");
  Send(sender_->Make(1, false), "reports_accepted");
  ASSERT_NO_FATAL_FAILURE(PlaceNew(10, placed));
  EXPECT_EQ(placed, Placed(40, 0));

  Send(sender_->Make(0, true), "reports_accepted");
  ASSERT_NO_FATAL_FAILURE(PlaceNew(10, placed));
  EXPECT_EQ(placed, Placed(0, 40));

  Send(sender_->Make(1, true), "reports_accepted");  // all busy: as if none were
  ASSERT_NO_FATAL_FAILURE(PlaceNew(10, placed));
  EXPECT_EQ(placed, Placed(40, 0));

  Send(sender_->Make(0, false), "reports_accepted");
  ASSERT_NO_FATAL_FAILURE(PlaceNew(10, placed));
  EXPECT_EQ(placed, Placed(40, 0));
  ASSERT_TRUE(flows_->AwaitProgress(10)) << flows_->Stuck();
  ExpectNoFlowMoved();
}

INSTANTIATE_TEST_SUITE_P(Ip, ReportsOnTheWire, testing::Values(4, 6), FamilyName);

// Reports of an agent that is wrong, beside checks that the units' servers answer. wrr: both units get flows.
class AWrongAgent : public Reports {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT();
    lab::TestbedSpec spec = CpuAndNic("lie", GetParam());
    for (lab::ServiceSpec& service : spec.services) service.unit_policy = SPW_UNIT_WRR;
    ASSERT_NO_FATAL_FAILURE(Up(spec, std::chrono::seconds(3)));
    auto sender = ReportSender::Open(bed_->plan(), 0);
    ASSERT_TRUE(sender) << sender.error().message;
    sender_ = std::move(*sender);
  }
  void Use(model::CheckKind kind) {
    model::HealthCheck check;
    check.kind = kind;
    check.port = kEchoPort;
    check.interval_ms = 50;
    check.payload.resize(unit::kRequestBytes);
    unit::Encode(unit::Request{1, 0, 0}, check.payload.data());
    model::Config config = bed_->config();
    config.data_plane.report->silent_after_ms = 3000;
    for (model::Service& service : config.services) service.health = check;
    const Ran ran = bed_->Apply(config);
    ASSERT_EQ(ran.exit, 0) << ran.err;
    ASSERT_TRUE(Eventually([&] {
      const auto health = Nic().at("health");
      return health.is_object() && health.at("state") == "up";
    })) << bed_->Show("health").dump(1);
  }
  nlohmann::json Nic() { return bed_->Unit("s1", "nic"); }
  // The agent repeats its word until the unit, so shown, is as wanted.
  bool Says(uint8_t why, const std::function<bool(const nlohmann::json&)>& is) {
    return Eventually([&] {
      EXPECT_TRUE(sender_->Send(sender_->MakeFailing(1, why)));
      const nlohmann::json failing = Nic().at("failing");
      return failing.is_object() && is(failing);
    });
  }

  std::unique_ptr<ReportSender> sender_;
};

TEST_P(AWrongAgent, IsOverruledByChecksThatTheServerAnswersButNotWhereItSpeaksOfErrors) {
  const auto is_out = [](const nlohmann::json& failing) { return failing.at("taken_out") == true; };
  const auto is_excused = [](const nlohmann::json& failing) { return failing.at("excused") == true; };
  ASSERT_NO_FATAL_FAILURE(Use(model::CheckKind::kUdp));
  ASSERT_TRUE(Says(0, is_out)) << Nic().dump(1);
  ASSERT_TRUE(Says(0, is_excused)) << Nic().dump(1);
  EXPECT_EQ(Nic().at("failing").at("taken_out"), false);
  Placed placed;
  ASSERT_NO_FATAL_FAILURE(PlaceNew(10, placed));
  EXPECT_GT(placed.second, 3u) << "a quarter of 40 by capacity; only probes went to it before";
  ASSERT_TRUE(Says(0, is_excused));
  EXPECT_THAT(bed_->Cli({"show", "units"}).out,
              testing::HasSubstr("failing (unanswered, kept in: it answers its checks)"));
  EXPECT_TRUE(Eventually(
      [&] { return bed_->DaemonLog().find("still chosen, as it passes its checks") != std::string::npos; }));
  EXPECT_TRUE(Says(SPW_REPORT_REFUSED, is_excused));
  ASSERT_TRUE(Says(SPW_REPORT_ERRORS, is_out)) << Nic().dump(1);
}

INSTANTIATE_TEST_SUITE_P(Ip, AWrongAgent, testing::Values(4, 6), FamilyName);

}  // namespace
}  // namespace spillway::e2e
