// SPDX-License-Identifier: Apache-2.0
// Active health checks of web servers: what new flows and established ones meet while a server hangs, dies,
// answers wrongly or flaps, and what the operator is told of it.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "checks_bed.h"
#include "flow_set.h"
#include "model/yaml.h"

namespace spillway::e2e {
namespace {

using testing::HasSubstr;

constexpr uint16_t kWeb = 80;
constexpr int kRequests = 60;

class WebHealth : public ChecksTest {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT("nginx", "curl");
    BringUp();
    if (HasFatalFailure()) return;
    // Beside nginx on every unit, for connections that live through it all.
    const auto echoes = bed_->StartEchoes();
    ASSERT_TRUE(echoes) << echoes.error().message;
    flows_ = std::make_unique<FlowSet>(bed_->plan().client_netns);
  }
  void TearDown() override { flows_.reset(); }
  lab::TestbedSpec Spec() const override {
    lab::TestbedSpec spec = TwoModes("hw", GetParam().family,
                                     {{model::Protocol::kTcp, kEchoPort},
                                      {model::Protocol::kUdp, kEchoPort},
                                      {model::Protocol::kTcp, kWeb}});
    spec.name += model::ToString(GetParam().policy)[0];
    for (lab::ServiceSpec& service : spec.services) service.unit_policy = GetParam().policy;
    for (const char* server : {"s1", "s2"})
      spec.servers.push_back(
          ServerOf(server, {{"cpu", SPW_KIND_CPU}, {"nic", SPW_KIND_SMARTNIC}}, lab::Workload::kNginx));
    return spec;
  }
  model::HealthCheck DefaultCheck() const override {
    model::HealthCheck check = Quick(model::CheckKind::kHttp, kWeb);
    check.path = "/unit";
    check.body = "s";
    return check;
  }

  void OpenFlows() {
    for (const model::Service& service : bed_->config().services)
      for (const auto protocol : {model::Protocol::kTcp, model::Protocol::kUdp})
        flows_->Open(protocol, service.vip, kEchoPort, 30);
    ASSERT_TRUE(flows_->AwaitProgress(2)) << flows_->Stuck();
  }
  void ExpectFlowsUntouched() {
    EXPECT_TRUE(flows_->AwaitProgress(5)) << flows_->Stuck();
    EXPECT_EQ(flows_->Tally().moved + flows_->Tally().broken, 0u) << flows_->Tally().example;
  }
  // The units that answer new connections, how often each; a request without an answer fails the test.
  std::map<std::string, int> Answers() {
    std::map<std::string, int> answers;
    for (const model::Service& service : bed_->config().services) {
      const Ran ran = bed_->InClient(
          {"curl", "-sS", "--fail-early", "--fail", "--max-time", "5", "-H", "Connection: close",
           fmt::format("{}/unit?[1-{}]", bed_->Url(service.name, kWeb), kRequests)});
      EXPECT_EQ(ran.exit, 0) << service.name << ": " << ran.err;
      std::istringstream lines(ran.out);
      for (std::string line; std::getline(lines, line);) answers[line]++;
    }
    return answers;
  }
  bool AnswersAgain(const std::string& label) {
    return Eventually([&] { return Answers().contains(label); });
  }

  std::unique_ptr<FlowSet> flows_;
};

TEST_P(WebHealth, AServerThatHangsGetsNoNewFlowsAndIsBackWhenItAnswers) {
  OpenFlows();
  ASSERT_TRUE(Answers().contains("s1-cpu"));
  SignalServer("s1-cpu", "nginx", SIGSTOP);
  ASSERT_TRUE(Is("s1", "cpu", true)) << bed_->Show("health").dump(1);
  EXPECT_EQ(Why("s1", "cpu"), "connected, but no whole answer within 300 ms");
  EXPECT_FALSE(Answers().contains("s1-cpu"));
  ExpectFlowsUntouched();

  const Ran units = bed_->Cli({"show", "units"});
  EXPECT_THAT(units.out, HasSubstr("up ejected"));
  EXPECT_THAT(units.out, HasSubstr("connected, but no whole answer"));
  const std::string s1_cpu = R"({service="nat",pool="lab",server="s1",unit="cpu"})";
  EXPECT_THAT(Metrics(), HasSubstr("spillway_check_failing" + s1_cpu + " 1"));
  EXPECT_THAT(Metrics(), HasSubstr("spillway_service_ejected_units{service=\"nat\",pool=\"lab\"} 1"));
  EXPECT_THAT(bed_->DaemonLog(), HasSubstr("health of lab/s1/cpu, service nat: failing, http "));
  EXPECT_THAT(bed_->DaemonLog(), HasSubstr("warning: lab/s1/cpu gets no new flows any more"));

  SignalServer("s1-cpu", "nginx", SIGCONT);
  ASSERT_TRUE(Is("s1", "cpu", false));
  EXPECT_TRUE(AnswersAgain("s1-cpu"));
  EXPECT_THAT(bed_->DaemonLog(), HasSubstr("info: lab/s1/cpu gets new flows again"));
  ExpectFlowsUntouched();
}

TEST_P(WebHealth, AServerThatIsKilledGetsNoNewFlowsAndIsBackWhenItRunsAgain) {
  OpenFlows();
  SignalServer("s2-cpu", "nginx", SIGKILL);
  ASSERT_TRUE(Is("s2", "cpu", true));
  EXPECT_THAT(Why("s2", "cpu"), HasSubstr("connect"));
  EXPECT_FALSE(Answers().contains("s2-cpu"));
  RestartServer("s2-cpu");
  ASSERT_TRUE(Is("s2", "cpu", false)) << bed_->Show("health").dump(1);
  EXPECT_TRUE(AnswersAgain("s2-cpu"));
  ExpectFlowsUntouched();
}

TEST_P(WebHealth, AServerThatAnswersWithAnErrorGetsNoNewFlows) {
  const std::string conf = bed_->plan().folder + "/s1-cpu.conf";
  const std::string good = ReadFile(conf);
  std::ofstream(conf) << std::regex_replace(good, std::regex("return 200"), "return 500");
  ASSERT_NO_FATAL_FAILURE(ReloadNginx("s1-cpu"));
  ASSERT_TRUE(Is("s1", "cpu", true));
  EXPECT_EQ(Why("s1", "cpu"), "status 500");
  EXPECT_FALSE(Answers().contains("s1-cpu"));
  std::ofstream(conf) << good;
  ASSERT_NO_FATAL_FAILURE(ReloadNginx("s1-cpu"));
  ASSERT_TRUE(Is("s1", "cpu", false));
  EXPECT_TRUE(AnswersAgain("s1-cpu"));
}

TEST_P(WebHealth, WhenAllServersFailNoneIsTakenOut) {
  OpenFlows();
  for (const char* label : {"s1-cpu", "s1-nic", "s2-cpu", "s2-nic"}) SignalServer(label, "nginx", SIGSTOP);
  ASSERT_TRUE(AllAre("failing"));
  const auto services = [&] { return bed_->Show("services"); };
  ASSERT_TRUE(Eventually([&] { return services()[0].at("fail_open") == true; })) << services().dump(1);
  EXPECT_EQ(bed_->Show("status").at("fail_open"), services().size());
  for (const auto& unit : bed_->Show("units")) EXPECT_EQ(unit.at("ejected"), false) << unit.dump(1);
  // What does answer on them is still reached, on all that the policy uses.
  ASSERT_NO_FATAL_FAILURE(OpenFlows());
  EXPECT_EQ(flows_->PerUnit().size(), GetParam().policy == SPW_UNIT_HOST_ONLY ? 2u : 4u);
  ExpectFlowsUntouched();
  EXPECT_THAT(Metrics(), HasSubstr("spillway_service_fail_open{service=\"nat\",pool=\"lab\"} 1"));
  EXPECT_THAT(bed_->DaemonLog(),
              HasSubstr("service nat: every unit fails a check, of this service or another of its pool, or"));
  for (const char* label : {"s1-cpu", "s1-nic", "s2-cpu", "s2-nic"}) SignalServer(label, "nginx", SIGCONT);
  ASSERT_TRUE(AllAre("up"));
  ASSERT_TRUE(Eventually([&] { return services()[0].at("fail_open") == false; }));
  EXPECT_EQ(bed_->Show("status").at("fail_open"), 0);
  EXPECT_THAT(Metrics(), HasSubstr("spillway_service_fail_opened_total{service=\"nat\",pool=\"lab\"} "));
}

TEST_P(WebHealth, FlowsOfAFailedUnitMoveWhereTheFileSaysSo) {
  model::HealthCheck check = DefaultCheck();
  check.on_fail = model::OnFail::kMove;
  ASSERT_NO_FATAL_FAILURE(Use(check));
  OpenFlows();
  const size_t there = flows_->PerUnit()["s1-cpu"];
  ASSERT_GT(there, 0u);
  SignalServer("s1-cpu", "nginx", SIGSTOP);
  ASSERT_TRUE(Is("s1", "cpu", true));
  EXPECT_TRUE(Eventually([&] { return flows_->Tally().moved + flows_->Tally().broken >= there; }))
      << flows_->Tally().moved << " moved, " << flows_->Tally().broken << " broken of " << there;
  SignalServer("s1-cpu", "nginx", SIGCONT);
  ASSERT_TRUE(Is("s1", "cpu", false));
}

TEST_P(WebHealth, AUnitThatFlapsWaitsBeforeItIsBack) {
  model::HealthCheck check = DefaultCheck();
  check.dampening_ms = check.dampening_limit_ms = 600'000;
  ASSERT_NO_FATAL_FAILURE(Use(check));
  ASSERT_TRUE(AllAre("up"));
  // Each service has a check of its own, and a past of its own.
  const auto checks = [&] {
    std::vector<nlohmann::json> found;
    for (const auto& one : bed_->Show("health"))
      if (one.at("server") == "s1" && one.at("unit") == "cpu") found.push_back(one);
    return found;
  };
  const auto become = [&](const std::string& state) {
    return Eventually([&] {
      const auto found = checks();
      return std::all_of(found.begin(), found.end(),
                         [&](const auto& one) { return one.at("state") == state; });
    });
  };
  ASSERT_TRUE(become("up"));
  for (const bool comes_back : {true, false}) {
    SignalServer("s1-cpu", "nginx", SIGSTOP);
    ASSERT_TRUE(become("failing"));
    SignalServer("s1-cpu", "nginx", SIGCONT);
    if (comes_back) {
      ASSERT_TRUE(become("up")) << "the first time it is back at once";
    }
  }
  const auto before = checks();
  ASSERT_EQ(before.size(), 2u);
  for (size_t i = 0; i < 2; i++) {
    ASSERT_TRUE(
        Eventually([&] { return checks()[i].at("passed") > before[i].at("passed").get<uint64_t>() + 5; }));
    EXPECT_EQ(checks()[i].at("state"), "failing");
    EXPECT_GT(checks()[i].at("held_s"), 0);
  }
  EXPECT_FALSE(Answers().contains("s1-cpu"));
}

TEST_P(WebHealth, WhatTheOperatorSaidOutlivesAFailureAndIsNotTakenForOne) {
  ASSERT_EQ(bed_->Cli({"drain", "lab/s1/nic"}).exit, 0);
  SignalServer("s1-nic", "nginx", SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return bed_->Unit("s1", "nic").at("health").at("state") == "failing"; }));
  EXPECT_EQ(bed_->Unit("s1", "nic").at("status"), "draining");
  EXPECT_EQ(bed_->Unit("s1", "nic").at("ejected"), false);
  SignalServer("s1-nic", "nginx", SIGCONT);
  ASSERT_TRUE(AllAre("up"));
  EXPECT_EQ(bed_->Unit("s1", "nic").at("status"), "draining");
  EXPECT_FALSE(Answers().contains("s1-nic"));
  ASSERT_EQ(bed_->Cli({"drain", "--undo", "lab/s1/nic"}).exit, 0);

  // And the other way round: "up" does not put a failing unit back.
  SignalServer("s1-cpu", "nginx", SIGSTOP);
  ASSERT_TRUE(Is("s1", "cpu", true));
  ASSERT_EQ(bed_->Cli({"set", "unit", "lab/s1/cpu", "status=up"}).exit, 0);
  EXPECT_EQ(bed_->Unit("s1", "cpu").at("ejected"), true);
  EXPECT_FALSE(Answers().contains("s1-cpu"));
  SignalServer("s1-cpu", "nginx", SIGCONT);
  ASSERT_TRUE(Is("s1", "cpu", false));
}

TEST_P(WebHealth, CommandsAreTakenFromTheDaemonsFileAndKilledWhenTheyDoNotEnd) {
  model::HealthCheck check = Quick(model::CheckKind::kExec, kWeb);
  check.command = {"/bin/sh", "-c", "test $SPILLWAY_SERVER-$SPILLWAY_UNIT != s1-cpu || sleep 1000"};
  const model::Config config = WithCheck(bed_->config(), check);
  const Ran refused = bed_->Apply(config);
  EXPECT_EQ(refused.exit, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("services[nat].health.command: expected a command that is already in use"));
  const std::string file = ReadFile(bed_->plan().pool_file);
  bed_->WritePoolFile(model::ToYaml(config));
  bed_->Signal(SIGHUP);
  ASSERT_TRUE(Eventually([&] {
    return bed_->Unit("s1", "cpu").at("health").at("check") != nullptr &&
           bed_->Unit("s1", "cpu").at("health").at("reason") == "command did not finish within 300 ms";
  })) << bed_->Show("health").dump(1);
  ASSERT_TRUE(Is("s1", "cpu", true));
  ASSERT_TRUE(Eventually([&] { return bed_->Unit("s2", "cpu").at("health").at("state") == "up"; }));
  EXPECT_FALSE(Answers().contains("s1-cpu"));
  EXPECT_EQ(bed_->Apply(config).exit, 0) << "one that runs already is no new one";
  bed_->WritePoolFile(file);
  ASSERT_NO_FATAL_FAILURE(Use(DefaultCheck()));
  ASSERT_TRUE(AllAre("up"));
}

INSTANTIATE_TEST_SUITE_P(Policy, WebHealth,
                         testing::Values(CheckCase{4, SPW_UNIT_WRR}, CheckCase{4, SPW_UNIT_HOST_ONLY},
                                         CheckCase{6, SPW_UNIT_WRR}),
                         CheckCaseName);

}  // namespace
}  // namespace spillway::e2e
