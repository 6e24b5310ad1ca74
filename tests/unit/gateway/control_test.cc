// SPDX-License-Identifier: Apache-2.0
// What the controller's shell decides without a process: model files, whose word counts for a host, what
// moves cost, what operators are told.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "gateway/config.h"
#include "gateway/control/fleet_file.h"
#include "gateway/control/fleet_report.h"
#include "gateway/control/host_table.h"
#include "gateway/control/model_file.h"
#include "gateway/control/move_times.h"
#include "gateway/control/waiting_reports.h"

namespace spillway::gateway {
namespace {

using namespace scheduler;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string ProblemOf(const std::string& yaml) {
  const auto read = ParseModelFile(yaml, "m.yaml");
  return read ? "" : read.error().message;
}

TEST(ModelFile, SaysWhatAnInstanceAsksForAndRuns) {
  const auto read = ParseModelFile(
      "model: {name: digits, kind: mlp, layers: [784, 10], rows: 8}\n"
      "tenant: red\nreplicas: 2\nshare: 0.25\nmemory: 1500MiB\nslo: 20ms\ncells: 2\n",
      "m.yaml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->name, "digits");
  EXPECT_EQ(read->tenant, "red");
  EXPECT_EQ(read->replicas, 2);
  EXPECT_EQ(read->milli, 250);
  EXPECT_EQ(read->memory_mib, 1500);
  EXPECT_EQ(read->slo_ms, 20);
  const auto program = nlohmann::json::parse(read->program);
  EXPECT_EQ(program.at("cells"), 2);
  EXPECT_EQ(program.at("models").at(0).at("layers"), nlohmann::json({784, 10}));
}

TEST(ModelFile, ProblemsNameLineAndKey) {
  const std::string model = "model: {name: m, kind: echo, row_bytes: 8}\n";
  EXPECT_EQ(ProblemOf(model), "");
  EXPECT_THAT(ProblemOf(model + "share: 2\n"), HasSubstr("m.yaml:2: share: expected"));
  EXPECT_THAT(ProblemOf(model + "replica: 2\n"), HasSubstr("did you mean replicas"));
  EXPECT_THAT(ProblemOf("share: 1\n"), HasSubstr("model"));
  EXPECT_THAT(ProblemOf("model: {name: m, kind: echo, row_bytes: 900000}\n"),
              HasSubstr("expected 64 rows to fit into a cell"));
  EXPECT_THAT(ProblemOf(model + "replicas: 1\n---\nx"), HasSubstr("m.yaml"));
}

TEST(ModelFile, AMistypedTenantDoesNotEscapeItsQuota) {
  GatewayConfig config;
  config.broker.tenants = {{"blue"}};
  config.controller.emplace();
  const std::string file = "model: {name: m, kind: echo, row_bytes: 8}\ntenant: ";
  const auto problem = [&](const std::string& tenant) {
    const auto read = ParseModelFile(file + tenant + "\n", "m.yaml", KnownTenants(config));
    return read ? "" : read.error().message;
  };
  EXPECT_EQ(problem("team-rde"), "") << "nobody has a quota";
  config.controller->options.gpu_quotas = {{"team-red", 2}};
  EXPECT_EQ(problem("team-rde"),
            "m.yaml:2: tenant: expected a tenant of the gateway's `controller.quotas` or `tenants`, got "
            "\"team-rde\", did you mean team-red?");
  for (const char* known : {"team-red", "blue", "default"}) EXPECT_EQ(problem(known), "");
  config.controller->options.gpu_quotas["*"] = 1;
  EXPECT_EQ(problem("team-rde"), "") << "it shares the quota of all others";
}

TEST(ModelFile, OfAProgramSaysItsNameAndLeavesTheRestToIt) {
  auto read = ParseModelFile("program: resnet\nshare: 0.5\n", "m.yaml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->name, "resnet");
  EXPECT_EQ(read->host_program, "resnet");
  EXPECT_EQ(read->milli, 500);
  EXPECT_EQ(read->program, "");
  read = ParseModelFile("program: resnet\nname: cats\n", "m.yaml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->name, "cats");
  EXPECT_EQ(read->host_program, "resnet");
  EXPECT_THAT(ProblemOf("program: resnet\ncell: {input: 1MiB}\n"),
              HasSubstr("m.yaml:2: cell: not allowed with `program`"));
  EXPECT_THAT(ProblemOf("model: {name: m, kind: echo, row_bytes: 8}\nname: n\n"),
              HasSubstr("m.yaml:2: name: allowed only with `program`"));
  EXPECT_THAT(ProblemOf("program: /bin/sh\n"), HasSubstr("m.yaml:1: program: "));
}

TEST(ControllerConfig, IsReadWithTheGatewaysIsolation) {
  const std::string yaml = "http: 127.0.0.1:0\nexecutors: /x/e\nisolation: gpu\n";
  EXPECT_FALSE(ParseGatewayConfig(yaml, "g.yaml")->controller);
  const auto config = ParseGatewayConfig(
      yaml + "controller: {socket: /x/c, state: /x/s, policy: first-fit, sharing: false, drain: 3s}\n",
      "g.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->controller->options.rules.isolation, Isolation::kGpu);
  EXPECT_EQ(config->controller->options.policy, Policy::kFirstFit);
  EXPECT_FALSE(config->controller->options.rules.is_sharing);
  EXPECT_EQ(config->controller->options.drain_limit, 3000);
  EXPECT_EQ(config->controller->connections_per_address, 64u);
  EXPECT_EQ(ParseGatewayConfig(yaml + "controller: {socket: /x/c, state: /x/s, connections_per_address: 5}\n",
                               "g.yaml")
                ->controller->connections_per_address,
            5u);
  const auto open = ParseGatewayConfig(
      yaml + "controller: {socket: /x/c, state: /x/s, listen: \"127.0.0.1:0\"}\n", "g.yaml");
  ASSERT_FALSE(open);
  EXPECT_THAT(open.error().message,
              HasSubstr("g.yaml:4: controller.listen: requires the key token_file beside it"));
  const std::string quotas = yaml + "controller: {socket: /x/c, state: /x/s, quotas: [{tenant: red, gpus: ";
  const auto limited = ParseGatewayConfig(quotas + "2.5}]}\n", "g.yaml");
  ASSERT_TRUE(limited) << limited.error().message;
  EXPECT_THAT(limited->controller->options.gpu_quotas, ElementsAre(testing::Pair("red", 2.5)));
  const auto twice = ParseGatewayConfig(quotas + "2.5}, {tenant: red, gpus: -1}]}\n", "g.yaml");
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("g.yaml:4: controller.quotas[#2].gpus: expected"));
}

TEST(WaitingReports, OfManyOfOneAgentTheNewestIsWorkedAndNoOthersIsReplaced) {
  WaitingReports reports;
  std::vector<std::string> answers;
  const auto put = [&](const std::string& host, const std::string& agent, uint64_t revision) {
    scheduler::HostReport report;
    report.agent = agent;
    report.revision = revision;
    return reports.Put({host, agent}, {report, [&answers](const Result<HostOrders>& orders) {
                                         answers.push_back(orders ? "" : orders.error().message);
                                       }});
  };
  EXPECT_TRUE(put("h", "agent", 1));
  for (uint64_t revision = 2; revision <= 800; ++revision) EXPECT_FALSE(put("h", "agent", revision));
  EXPECT_EQ(answers.size(), 799u);
  EXPECT_THAT(answers, testing::Each(HasSubstr("host h: answered by a newer request of this host")));
  EXPECT_TRUE(put("h", "another", 7)) << "who may be nobody";
  EXPECT_TRUE(put("k", "agent", 8));
  EXPECT_EQ(reports.Take({"h", "agent"}).report.revision, 800u);
  EXPECT_EQ(reports.Take({"h", "another"}).report.revision, 7u);
  EXPECT_TRUE(put("h", "agent", 801)) << "of the next turn";
  EXPECT_EQ(answers.size(), 799u);
}

// To open a FIFO would wait for its writer.
TEST(FleetFile, ThatIsNoRegularFileIsToldSo) {
  char folder[] = "/tmp/spillway-fleet-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/fleet.json";
  {
    const auto file = FleetFile::Open(path);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_TRUE(file->Read()) << "there is none yet";
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const auto read = file->Read();
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::kBadInput);
    EXPECT_THAT(read.error().message, testing::EndsWith("/fleet.json: expected a regular file"));
  }
  std::filesystem::remove_all(folder);
}

class HostTableTest : public testing::Test {
 protected:
  void Wait(uint64_t revision, std::chrono::milliseconds wait) {
    hosts_.Wait("h", revision, now_ + wait, [this](const Result<HostOrders>& orders) {
      answers_.push_back(orders ? static_cast<int>(orders->revision) : -1);
    });
  }
  void AnswerAt(uint64_t revision) {
    hosts_.AnswerWith([&](const std::string&) { return HostOrders{revision, {}}; }, revision, now_);
  }
  HostTable hosts_{1000ms};
  HostTable::Time now_{};
  std::vector<int> answers_;
};

TEST_F(HostTableTest, AnAgentIsAnsweredWhenThereIsNewsOrItHasWaitedLongEnough) {
  ASSERT_TRUE(hosts_.Hear("h", "agent", now_));
  Wait(4, 300ms);
  AnswerAt(4);
  EXPECT_THAT(answers_, IsEmpty());
  AnswerAt(5);
  EXPECT_THAT(answers_, ElementsAre(5));
  AnswerAt(6);
  EXPECT_EQ(answers_.size(), 1u) << "answered twice";
  Wait(6, 300ms);
  now_ += 300ms;
  AnswerAt(6);
  EXPECT_THAT(answers_, ElementsAre(5, 6));
}

TEST_F(HostTableTest, OneAgentSpeaksForAHostUntilItIsSilentAndSilenceIsToldOnce) {
  ASSERT_TRUE(hosts_.Hear("h", "one", now_));
  now_ += 999ms;
  const auto other = hosts_.Hear("h", "two", now_);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kConflict);
  EXPECT_THAT(hosts_.Silent(now_), IsEmpty());
  now_ += 1ms;
  EXPECT_THAT(hosts_.Silent(now_), ElementsAre("h"));
  EXPECT_THAT(hosts_.Silent(now_), IsEmpty());
  EXPECT_TRUE(hosts_.Hear("h", "two", now_));
}

TEST_F(HostTableTest, AfterARestartTheHostsAgentIsWaitedFor) {
  hosts_.Expect("h", "one", now_);
  hosts_.Expect("of an older file", "", now_);
  now_ += 999ms;
  EXPECT_FALSE(hosts_.Hear("h", "two", now_));
  EXPECT_TRUE(hosts_.Hear("h", "one", now_));
  EXPECT_TRUE(hosts_.Hear("of an older file", "two", now_));
}

TEST_F(HostTableTest, AnAgentWithoutAnIdentityIsRefused) {
  const auto heard = hosts_.Hear("h", "", now_);
  ASSERT_FALSE(heard);
  EXPECT_EQ(heard.error().message, "host h: agent: expected 1 to 64 characters, got 0");
  EXPECT_FALSE(hosts_.Hear("h", std::string(65, 'a'), now_));
  EXPECT_TRUE(hosts_.Hear("h", std::string(64, 'a'), now_));
}

TEST_F(HostTableTest, WhoWaitsForAnAnswerIsNotSilentMeanwhile) {
  ASSERT_TRUE(hosts_.Hear("h", "one", now_));
  Wait(1, 5000ms);
  now_ += 4000ms;
  EXPECT_THAT(hosts_.Silent(now_), IsEmpty());
  now_ += 2001ms;
  EXPECT_THAT(hosts_.Silent(now_), ElementsAre("h"));
}

TEST_F(HostTableTest, WhileNobodyListensNobodyIsSilent) {
  ASSERT_TRUE(hosts_.Hear("h", "one", now_));
  now_ += 9000ms;
  hosts_.Excuse(9000ms);
  EXPECT_THAT(hosts_.Silent(now_), IsEmpty());
  now_ += 1000ms;
  EXPECT_THAT(hosts_.Silent(now_), ElementsAre("h"));
}

TEST_F(HostTableTest, ThereAreOnlySoManyHosts) {
  for (size_t i = 0; i < HostTable::kMaxHosts; ++i)
    ASSERT_TRUE(hosts_.Hear(fmt::format("h{}", i), "agent", now_));
  const auto more = hosts_.Hear("more", "agent", now_);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ErrorCode::kConflict);
  EXPECT_THAT(more.error().message, HasSubstr("host more: host limit (1024) reached"));
  EXPECT_TRUE(hosts_.Hear("h7", "agent", now_)) << "one of those that are known";
}

class MoveTimesTest : public testing::Test {
 protected:
  MoveTimesTest() {
    Instance old;
    old.id = 1;
    old.model.name = "m";
    old.place = {"h1", "g1"};
    old.phase = Phase::kReady;
    fleet_.instances[1] = old;
    Instance next = old;
    next.id = 2;
    next.place = {"h2", "g2"};
    next.replaces = 1;
    next.phase = Phase::kStarting;
    fleet_.instances[2] = next;
  }
  std::vector<MoveTimes::Move> At(Millis now) { return times_.See(fleet_, here_, now).ended; }
  Fleet fleet_;
  std::set<uint64_t> here_{1};
  MoveTimes times_;
};

TEST_F(MoveTimesTest, AMoveCostsTheTimeInWhichNobodyServed) {
  EXPECT_THAT(At(1000), IsEmpty());
  here_.clear();  // the old one's executor died
  EXPECT_THAT(At(1040), IsEmpty());
  here_ = {2};
  fleet_.instances[2].phase = Phase::kReady;
  fleet_.instances[1].phase = Phase::kDraining;
  EXPECT_THAT(At(1100), IsEmpty());
  fleet_.instances[2].replaces = 0;
  fleet_.instances.erase(1);
  const auto ended = At(1200);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].model, "m");
  EXPECT_EQ(ended[0].downtime, 40);
  EXPECT_THAT(At(1300), IsEmpty());
}

TEST_F(MoveTimesTest, AMoveIsToldOnceWhenItBeginsWithItsTwoGpus) {
  const auto begun = times_.See(fleet_, here_, 1000).begun;
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun[0].model + " " + begun[0].from + " " + begun[0].to, "m h1/g1 h2/g2");
  EXPECT_THAT(times_.See(fleet_, here_, 1100).begun, IsEmpty());
}

TEST_F(MoveTimesTest, AMoveThatFailedIsNone) {
  EXPECT_THAT(At(1000), IsEmpty());
  fleet_.instances[2].phase = Phase::kStopping;
  fleet_.instances[2].replaces = 0;
  EXPECT_THAT(At(1100), IsEmpty());
}

TEST_F(MoveTimesTest, WhereTheOldOneDiesBeforeTheNewOneIsReadyItIsNoMove) {
  EXPECT_THAT(At(1000), IsEmpty());
  here_.clear();
  fleet_.instances[1].phase = Phase::kStopping;
  fleet_.instances[2].replaces = 0;
  EXPECT_THAT(At(1100), IsEmpty()) << "nobody serves it yet";
  here_ = {2};
  fleet_.instances[2].phase = Phase::kReady;
  EXPECT_THAT(At(1200), IsEmpty());
}

TEST(FleetReport, TellsModelsThatAreGoneUntilTheirInstancesAre) {
  Fleet fleet;
  fleet.revision = 1;
  fleet.hosts["h"] = {{{"g", "A100", 40960, true}}, true, 0};
  Instance one;
  one.id = 7;
  one.model.name = "gone";
  one.place = {"h", "g", 250};
  one.phase = Phase::kDraining;
  fleet.instances[7] = one;
  const auto report = ReportOf(Controller({}, fleet));
  EXPECT_EQ(report.at("models").at(0).at("name"), "gone");
  EXPECT_EQ(report.at("models").at(0).at("replicas"), 0);
  EXPECT_EQ(report.at("models").at(0).at("instances").at(0).at("gpu"), "h/g");
  EXPECT_EQ(report.at("hosts").at(0).at("gpus").at(0).at("share_used"), 0.25);
  EXPECT_EQ(report.at("gpus_on"), 1);
}

TEST(FleetReport, SaysWhichMigProfilesAreHeld) {
  Fleet fleet;
  fleet.hosts["h"] = {{{"g", "A100-40", 40960, true}, {"whole", "T4"}}, true, 0};
  Instance one;
  one.id = 7;
  one.model.name = "m";
  one.place = {"h", "g", 400, scheduler::Profile::k3g, 4};
  fleet.instances[7] = one;
  const auto report = ReportOf(Controller({}, fleet));
  EXPECT_EQ(report.at("models").at(0).at("instances").at(0).at("profile"), "3g");
  EXPECT_EQ(report.at("hosts").at(0).at("gpus").at(0).at("profiles"), nlohmann::json({"3g"}));
  EXPECT_FALSE(report.at("hosts").at(0).at("gpus").at(1).contains("profiles"));
}

TEST(FleetReport, SaysOnWhichGpusRequestsTakeLonger) {
  Fleet fleet;
  fleet.hosts["h"] = {{{"g0", "T4"}, {"g1", "A10"}}, true, 0};
  ServedModel model;
  model.name = "m";
  fleet.models["m"] = model;
  for (uint64_t id = 1; id <= 2; ++id) {
    Instance one;
    one.id = id;
    one.model = model;
    one.place = {"h", fmt::format("g{}", id - 1)};
    one.phase = Phase::kReady;
    fleet.instances[id] = one;
  }
  Controller controller({}, fleet);
  EXPECT_FALSE(ReportOf(controller).at("models").at(0).contains("slowness"));
  controller.Learn({{1, "m", 20, 1000}, {2, "m", 8, 1000}}, 0);
  EXPECT_EQ(ReportOf(controller).at("models").at(0).at("slowness"),
            (nlohmann::json{{"A10", 1.0}, {"T4", 2.5}}));
}

}  // namespace
}  // namespace spillway::gateway
