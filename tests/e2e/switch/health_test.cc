// SPDX-License-Identifier: Apache-2.0
// A server's program dies, hangs or answers errors, its host and its agent live: real servers and clients.
// What is lost once the agent has said so are the probes and nothing else, whatever the policy; the unit is
// back when it answers again; connections on the other server do not notice.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "bed.h"
#include "cases.h"
#include "connections.h"
#include "health/dns_message.h"
#include "health/probe_kinds.h"
#include "lab/testbed/netns.h"

namespace spillway::e2e {
namespace {

using testing::HasSubstr;

constexpr size_t kConnections = 24;

// Two units, of which one fails: the one named unit_ of server s1.
class TwoUnits : public testing::TestWithParam<int> {
 protected:
  void BringUp(const std::string& name, const std::vector<model::ServicePort>& ports,
               const std::vector<lab::ServerSpec>& servers) {
    lab::TestbedSpec spec = TwoModes(name, GetParam(), ports);
    spec.services.erase(spec.services.begin());  // dsr alone
    if (ports[0].protocol == model::Protocol::kUdp) spec.services[0].affinity = SPW_AFFINITY_NONE;
    spec.servers = servers;
    spec.agent.run = true;
    spec.agent.period = lab::Micros(5000);
    bed_ = beds_.Get(spec);
    ASSERT_NE(bed_, nullptr) << beds_.error();
    ASSERT_TRUE(Eventually([this] {
      const auto units = bed_->Show("units");
      return std::all_of(units.begin(), units.end(), [](const auto& u) { return u.at("silent") == false; });
    }));
  }
  static void TearDownTestSuite() { beds_.Clear(); }

  const lab::UnitPlan& UnitOf(const std::string& server) const {
    for (const lab::UnitPlan& unit : bed_->plan().units)
      if (unit.server == server && unit.spec.name == unit_) return unit;
    std::abort();
  }
  void UsePolicy(spw_unit_policy policy) {
    model::Config config = bed_->config();
    for (model::Service& service : config.services) service.unit_policy = policy;
    const Ran ran = bed_->Apply(config);
    ASSERT_EQ(ran.exit, 0) << ran.err;
  }
  std::string ConfOf(const std::string& server) const {
    return fmt::format("{}/{}.conf", bed_->plan().folder, UnitOf(server).label);
  }
  // For a second or so, to all units that are in the choice.
  virtual void Traffic() = 0;
  nlohmann::json Failing(const std::string& server) { return bed_->Unit(server, unit_).at("failing"); }
  uint64_t FlowsTo(const std::string& server) {
    return bed_->Unit(server, unit_).at("new_flows").get<uint64_t>();
  }
  bool IsTakenOut(const std::string& server) {
    const auto failing = Failing(server);
    return !failing.is_null() && failing.at("taken_out") == true;
  }
  // Traffic, until the agent has noticed.
  void AwaitFailing(const std::string& server, const std::string& reason) {
    ASSERT_TRUE(Eventually([&] {
      Traffic();
      return IsTakenOut(server);
    })) << bed_->Show("units").dump();
    EXPECT_EQ(Failing(server).at("reason"), reason);
  }
  void AwaitWell(const std::string& server) {
    ASSERT_TRUE(Eventually([&] {
      Traffic();
      return Failing(server).is_null();
    })) << bed_->Show("units").dump();
  }

  static inline SharedBeds beds_;
  Bed* bed_ = nullptr;
  std::string unit_ = "cpu";
};

struct Asked {
  int64_t sent = -1, answered = -1;
  int64_t errors = 0;  // of the answers
  std::string text;
};

class FailingServer : public TwoUnits {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT("knotd", "dnsperf");
    BringUp("fail", {{model::Protocol::kUdp, 53}, {model::Protocol::kTcp, 53}},
            {ServerOf("s1", {{"cpu", SPW_KIND_CPU}}, lab::Workload::kKnot),
             ServerOf("s2", {{"cpu", SPW_KIND_CPU}}, lab::Workload::kKnot)});
  }
  std::vector<lab::ProcessId> Knotd(const std::string& server) const {
    std::vector<lab::ProcessId> found;
    for (const lab::ProcessId& id : lab::ProcessesIn(UnitOf(server).netns))
      if (ReadFile(fmt::format("/proc/{}/comm", id.pid)) == "knotd\n") found.push_back(id);
    return found;
  }
  void SignalKnotd(const std::string& server, int signal) const {
    const auto processes = Knotd(server);
    ASSERT_EQ(processes.size(), 1u);
    kill(processes[0].pid, signal);
    // A zombie has its pid yet, and knotd takes it for one that runs.
    if (signal == SIGKILL) {
      ASSERT_TRUE(lab::Wait(processes[0]));
    }
  }
  void Restart(const std::string& server) {
    const lab::ProcessPlan& process = *UnitOf(server).server_process;
    const auto id = bed_->StartIn(process.netns, process.argv, server + ".again");
    ASSERT_TRUE(id) << id.error().message;
    ASSERT_TRUE(Eventually([&] {
      return lab::PortBound(id->pid, {model::Protocol::kUdp, 53}) &&
             lab::PortBound(id->pid, {model::Protocol::kTcp, 53});
    }));
  }
  // Every name of the file so many times; a question is lost after a second.
  Asked Ask(int times) {
    const Ran ran =
        bed_->InClient({"dnsperf", "-s", bed_->vip("dsr"), "-d", bed_->plan().folder + "/queries.txt", "-n",
                        std::to_string(times), "-c", "8", "-q", "40", "-t", "1"});
    Asked asked;
    asked.text = ran.out + ran.err;
    std::smatch found;
    if (std::regex_search(ran.out, found, std::regex("Queries sent: +([0-9]+)")))
      asked.sent = std::stoll(found[1]);
    if (std::regex_search(ran.out, found, std::regex("Queries completed: +([0-9]+)")))
      asked.answered = std::stoll(found[1]);
    for (const char* error : {"SERVFAIL", "REFUSED"})
      if (std::regex_search(ran.out, found, std::regex(error + std::string(" ([0-9]+)"))))
        asked.errors += std::stoll(found[1]);
    return asked;
  }
  // A question each millisecond, whatever is answered: dnsperf at a given rate takes a whole CPU for it.
  void Traffic() override {
    constexpr int kSockets = 8, kQuestions = 1000;
    const auto asked = lab::Inside(bed_->plan().client_netns, [&]() -> Result<void> {
      const health::SocketAddress to(bed_->config().services[0].vip, 53);
      std::vector<base::Fd> sockets;
      for (int i = 0; i < kSockets; i++) {
        sockets.emplace_back(socket(to.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        if (connect(sockets.back().get(), to.get(), to.length) != 0)
          return Fail(ErrorCode::kSystem, fmt::format("connect to the VIP: {}", strerror(errno)));
      }
      for (int i = 0; i < kQuestions; i++) {
        const std::string question =
            health::DnsQuery(static_cast<uint16_t>(i), fmt::format("h{}.example.org", i + 1), 1);
        char answer[512];
        const int socket = sockets[static_cast<size_t>(i % kSockets)].get();
        send(socket, question.data(), question.size(), 0);
        while (recv(socket, answer, sizeof(answer), MSG_DONTWAIT) > 0) continue;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return {};
    });
    EXPECT_TRUE(asked) << asked.error().message;
  }
  // What is lost now went to this unit, and that is no more than probes.
  void ExpectOnlyProbesLost(const std::string& server) {
    const uint64_t before = FlowsTo(server);
    const Asked asked = Ask(3);
    const auto probes = static_cast<int64_t>(FlowsTo(server) - before);
    SCOPED_TRACE(asked.text);
    EXPECT_EQ(asked.sent, 3000);
    EXPECT_GE(asked.answered - asked.errors, asked.sent - probes);
    // Once in 17 ms at most, and every question is asked, or given up, within a few seconds.
    EXPECT_LE(probes, 150);
  }
  void ExpectAllAnswered() {
    const Asked asked = Ask(3);
    EXPECT_EQ(asked.answered, 3000) << asked.text;
    EXPECT_EQ(asked.errors, 0) << asked.text;
  }
};

// The other policies: faults_test.cc.
TEST_P(FailingServer, KilledItGetsProbesAloneAndIsBackWhenItAnswers) {
  for (const spw_unit_policy policy : {SPW_UNIT_ECMP, SPW_UNIT_JSQ}) {
    SCOPED_TRACE(model::ToString(policy));
    ASSERT_NO_FATAL_FAILURE(UsePolicy(policy));
    ExpectAllAnswered();
    ASSERT_NO_FATAL_FAILURE(SignalKnotd("s1", SIGKILL));
    ASSERT_NO_FATAL_FAILURE(AwaitFailing("s1", "refused"));
    ExpectOnlyProbesLost("s1");
    EXPECT_TRUE(Failing("s2").is_null()) << "s2 serves them all";
    ASSERT_NO_FATAL_FAILURE(Restart("s1"));
    ASSERT_NO_FATAL_FAILURE(AwaitWell("s1"));
    const uint64_t before = FlowsTo("s1");
    ExpectAllAnswered();
    EXPECT_GT(FlowsTo("s1"), before + 100) << "it has its share again";
  }
  EXPECT_EQ(bed_->Counter("dropped_no_unit"), 0u);
  EXPECT_THAT(bed_->DaemonLog(), HasSubstr("unit lab/s1/cpu: failing for"));
  EXPECT_THAT(bed_->DaemonLog(), HasSubstr("chosen again"));
}

TEST_P(FailingServer, StoppedItGetsProbesAloneUntilItGoesOn) {
  for (const spw_unit_policy policy : {SPW_UNIT_HEADROOM, SPW_UNIT_WRR}) {
    SCOPED_TRACE(model::ToString(policy));
    ASSERT_NO_FATAL_FAILURE(UsePolicy(policy));
    ExpectAllAnswered();
    ASSERT_NO_FATAL_FAILURE(SignalKnotd("s1", SIGSTOP));
    AwaitFailing("s1", "unanswered");
    if (!HasFailure()) ExpectOnlyProbesLost("s1");
    ASSERT_NO_FATAL_FAILURE(SignalKnotd("s1", SIGCONT));
    ASSERT_NO_FATAL_FAILURE(AwaitWell("s1"));
    ExpectAllAnswered();
  }
}

TEST_P(FailingServer, ConnectionsOfTheOtherServerDoNotNotice) {
  ASSERT_NO_FATAL_FAILURE(UsePolicy(SPW_UNIT_WRR));
  Connections connections(bed_->plan().client_netns, bed_->config().services[0].vip, 53, kConnections);
  ASSERT_EQ(connections.why_not(), "");
  ASSERT_EQ(connections.Ask(), kConnections);
  ASSERT_GT(connections.CloseThoseOf(Knotd("s1").at(0)), 0u);
  const size_t on_s2 = connections.open();
  ASSERT_GT(on_s2, 0u);

  ASSERT_NO_FATAL_FAILURE(SignalKnotd("s1", SIGKILL));
  ASSERT_NO_FATAL_FAILURE(AwaitFailing("s1", "refused"));
  for (int round = 0; round < 5; round++) EXPECT_EQ(connections.Ask(), on_s2);
  ASSERT_NO_FATAL_FAILURE(Restart("s1"));
  ASSERT_NO_FATAL_FAILURE(AwaitWell("s1"));
  EXPECT_EQ(connections.Ask(), on_s2);
}

// Both: nobody is left to take over, so half of the pool is out at most, and the rest goes on being asked.
TEST_P(FailingServer, BothKilledNoMoreThanHalfIsOutAndBothComeBack) {
  ASSERT_NO_FATAL_FAILURE(UsePolicy(SPW_UNIT_HEADROOM));
  for (const char* server : {"s1", "s2"}) ASSERT_NO_FATAL_FAILURE(SignalKnotd(server, SIGKILL));
  ASSERT_TRUE(Eventually([&] {
    Traffic();
    return !Failing("s1").is_null() && !Failing("s2").is_null();
  })) << bed_->Show("units").dump();
  EXPECT_NE(Failing("s1").at("taken_out"), Failing("s2").at("taken_out"));
  EXPECT_GT(bed_->Counter("failing_kept"), 0u);
  for (const char* server : {"s1", "s2"}) ASSERT_NO_FATAL_FAILURE(Restart(server));
  for (const char* server : {"s1", "s2"}) ASSERT_NO_FATAL_FAILURE(AwaitWell(server));
  ExpectAllAnswered();
}

TEST_P(FailingServer, OneThatLostItsZoneGetsProbesAloneUntilItHasItAgain) {
  const std::string conf = ConfOf("s1"), whole = ReadFile(conf);
  ASSERT_NE(whole.find("zone:\n"), std::string::npos);
  const auto reload = [&](const std::string& text) {
    std::ofstream(conf) << text;
    SignalKnotd("s1", SIGHUP);
  };
  for (const spw_unit_policy policy : {SPW_UNIT_HEADROOM, SPW_UNIT_WRR}) {
    SCOPED_TRACE(model::ToString(policy));
    ASSERT_NO_FATAL_FAILURE(UsePolicy(policy));
    ExpectAllAnswered();
    ASSERT_NO_FATAL_FAILURE(reload(whole.substr(0, whole.find("zone:\n"))));  // REFUSED, at once
    AwaitFailing("s1", "errors");
    if (!HasFailure()) ExpectOnlyProbesLost("s1");
    EXPECT_TRUE(Failing("s2").is_null()) << "s2 serves them all";
    ASSERT_NO_FATAL_FAILURE(reload(whole));
    ASSERT_NO_FATAL_FAILURE(AwaitWell("s1"));
    const uint64_t before = FlowsTo("s1");
    ExpectAllAnswered();
    EXPECT_GT(FlowsTo("s1"), before + 100) << "it has its share again";
  }
  EXPECT_THAT(bed_->DaemonLog(), HasSubstr("it answers with errors"));
}

TEST_P(FailingServer, ADeadOneThatIsRestartedWithoutItsZoneStaysOut) {
  const std::string zone = bed_->plan().folder + "/example.org.zone";
  ASSERT_NO_FATAL_FAILURE(UsePolicy(SPW_UNIT_HEADROOM));
  ASSERT_NO_FATAL_FAILURE(SignalKnotd("s1", SIGKILL));
  ASSERT_NO_FATAL_FAILURE(AwaitFailing("s1", "refused"));
  std::filesystem::rename(zone, zone + ".away");
  Restart("s1");  // SERVFAIL
  EXPECT_TRUE(Eventually([&] {
    Traffic();
    const auto failing = Failing("s1");
    return failing.is_object() && failing.at("reason") == "errors";
  })) << bed_->Show("units").dump();
  if (!HasFailure()) ExpectOnlyProbesLost("s1");
  std::filesystem::rename(zone + ".away", zone);
  ASSERT_NO_FATAL_FAILURE(SignalKnotd("s1", SIGHUP));
  ASSERT_NO_FATAL_FAILURE(AwaitWell("s1"));
  ExpectAllAnswered();
}

INSTANTIATE_TEST_SUITE_P(Ip, FailingServer, testing::Values(4, 6), FamilyName);

// Units of one server: the policy alone decides, and the one that fails fast would look the better.
class FailingWebServer : public TwoUnits {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT("nginx", "curl");
    BringUp("failw", {{model::Protocol::kTcp, 80}},
            {ServerOf("s1", {{"cpu", SPW_KIND_CPU}, {"nic", SPW_KIND_SMARTNIC}}, lab::Workload::kNginx)});
  }
  // So many requests, each on a connection of its own: how many had each status.
  std::map<std::string, int> Statuses(int requests) {
    const Ran ran =
        bed_->InClient({"curl", "-s", "--max-time", "20", "-H", "Connection: close", "-o", "/dev/null", "-w",
                        "%{http_code}\n", fmt::format("{}/1k?[1-{}]", bed_->Url("dsr", 80), requests)});
    std::map<std::string, int> statuses;
    std::istringstream lines(ran.out);
    for (std::string line; std::getline(lines, line);) statuses[line]++;
    return statuses;
  }
  void Traffic() override { Statuses(200); }
  // unit_: the one that the policy gives the most.
  void ChooseTheBusiest() {
    std::map<std::string, uint64_t> got;
    for (const char* unit : {"cpu", "nic"}) unit_ = unit, got[unit] = FlowsTo("s1");
    EXPECT_EQ(Statuses(200), (std::map<std::string, int>{{"200", 200}}));
    for (const char* unit : {"cpu", "nic"}) unit_ = unit, got[unit] = FlowsTo("s1") - got[unit];
    unit_ = got["cpu"] > got["nic"] ? "cpu" : "nic";
  }
  void Reload(const std::string& server, const std::string& conf) {
    std::ofstream(ConfOf(server)) << conf;
    const std::string pid =
        ReadFile(fmt::format("{}/{}.nginx.pid", bed_->plan().folder, UnitOf(server).label));
    ASSERT_EQ(kill(std::stoi(pid), SIGHUP), 0) << pid;
  }

  // Until a request to the unit itself is answered with this status.
  void AwaitStatus(const std::string& status) {
    const std::vector<std::string> ask = {"curl", "-s",           "--max-time",
                                          "20",   "-o",           "/dev/null",
                                          "-w",   "%{http_code}", bed_->Url("dsr", 80) + "/1k"};
    EXPECT_TRUE(Eventually([&] { return bed_->Run(ask, UnitOf("s1").netns).out == status; })) << status;
  }

  // The busiest unit answers 503 and its agent has said so; returns what it was configured with, "" for a
  // failure. A policy that learns may turn to the other unit before the agent has seen a dozen errors, and
  // an agent whose unit nobody asks cannot know that it fails: then the unit that is asked now fails instead.
  std::string LetTheBusiestAnswer503() {
    for (int attempt = 0; attempt < 5 && !HasFailure(); attempt++) {
      ChooseTheBusiest();
      const std::string whole = ReadFile(ConfOf("s1"));
      const size_t root = whole.find("    root ");
      if (root == std::string::npos) break;
      Reload("s1", whole.substr(0, root) + "    return 503;\n" + whole.substr(root));
      AwaitStatus("503");
      int unasked = 0;  // rounds in sequence
      EXPECT_TRUE(Eventually([&] {
        const uint64_t before = FlowsTo("s1");
        Traffic();
        unasked = FlowsTo("s1") - before < 12 ? unasked + 1 : 0;
        return IsTakenOut("s1") || unasked == 2;
      })) << bed_->Show("units").dump();
      if (IsTakenOut("s1")) return whole;
      Reload("s1", whole);
      AwaitStatus("200");
      AwaitWell("s1");
    }
    ADD_FAILURE() << bed_->Show("units").dump();
    return "";
  }
};

TEST_P(FailingWebServer, OneThatAnswers503GetsProbesAloneUntilItIsMended) {
  for (const spw_unit_policy policy : {SPW_UNIT_HEADROOM, SPW_UNIT_WRR}) {
    SCOPED_TRACE(model::ToString(policy));
    ASSERT_NO_FATAL_FAILURE(UsePolicy(policy));
    const std::string whole = LetTheBusiestAnswer503();
    ASSERT_NE(whole, "");
    SCOPED_TRACE(unit_);
    EXPECT_EQ(Failing("s1").at("reason"), "errors");
    const uint64_t before = FlowsTo("s1");
    std::map<std::string, int> statuses = Statuses(500);
    EXPECT_EQ(statuses["200"] + statuses["503"], 500);
    EXPECT_LE(statuses["503"], FlowsTo("s1") - before) << "probes";
    EXPECT_LE(statuses["503"], 100);
    ASSERT_NO_FATAL_FAILURE(Reload("s1", whole));
    ASSERT_NO_FATAL_FAILURE(AwaitWell("s1"));
    EXPECT_EQ(Statuses(200), (std::map<std::string, int>{{"200", 200}}));
  }
}

INSTANTIATE_TEST_SUITE_P(Ip, FailingWebServer, testing::Values(4, 6), FamilyName);

}  // namespace
}  // namespace spillway::e2e
