// SPDX-License-Identifier: Apache-2.0
// spillwayd's life as a process: start, signals, restart, conflict, end. Over a fake switch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/client.h"
#include "fake_switch.h"
#include "program.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::RunProgram;
using ::testing::StartsWith;

class Daemon : public ::testing::Test {
 protected:
  void SetUp() override { folder_.Write("pool.yaml", testing::PoolYaml()); }

  std::vector<std::string> Command(std::vector<std::string> more = {}) const {
    std::vector<std::string> argv = {
        FAKE_SPILLWAYD, "--run-dir", folder_.File(""), "-c", folder_.File("pool.yaml"), "--api", socket()};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }
  void Start(const std::vector<std::string>& more = {}, const std::string& environment = "A=b") {
    daemon_.emplace(Command(more), folder_.File("log"),
                    std::vector<std::string>{notify_.environment(), environment});
    ASSERT_THAT(notify_.WaitFor("READY=1"), Not("")) << log();
  }
  std::string socket() const { return folder_.File("api.sock"); }
  std::string log() const { return folder_.Read("log"); }
  bool pinned() const { return std::filesystem::exists(folder_.File("default.pins")); }
  nlohmann::json Get(const std::string& target) const {
    const auto body = api::Client::Accept(api::Client(socket()).Get(target));
    EXPECT_TRUE(body.has_value()) << body.error().message;
    return nlohmann::json::parse(body.value_or("null"));
  }
  void Edit(const std::string& from, const std::string& to) const {
    std::string yaml = testing::PoolYaml();
    folder_.Write("pool.yaml", yaml.replace(yaml.find(from), from.size(), to));
  }

  testing::Folder folder_;
  testing::NotifySocket notify_{folder_.File("notify")};
  std::optional<testing::Running> daemon_;
};

TEST_F(Daemon, EndsCleanlyAndRemovesTheDataPlane) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Start();
    EXPECT_TRUE(pinned());
    EXPECT_EQ(Get("/v1/status")["adopted"], false);
    daemon_->Signal(signal);
    EXPECT_EQ(daemon_->Wait(), 0);
    EXPECT_THAT(notify_.WaitFor("STOPPING=1"), Not(""));
    EXPECT_FALSE(pinned());
    EXPECT_FALSE(std::filesystem::exists(socket()));
  }
}

TEST_F(Daemon, WarnsOfAKeyThatAnyUserMayRead) {
  folder_.Write("s1.key", "000102030405060708090a0b0c0d0e0f\n");
  ASSERT_EQ(chmod(folder_.File("s1.key").c_str(), 0644), 0);
  Edit("- name: s1\n", "- name: s1\n        key_file: s1.key\n");
  Start();
  EXPECT_THAT(log(), HasSubstr("s1.key holds a secret and any user may read it: chmod 600"));
}

TEST_F(Daemon, KeepLeavesTheDataPlaneForTheNext) {
  Start({"--keep"});
  daemon_->Signal(SIGTERM);
  EXPECT_EQ(daemon_->Wait(), 0);
  EXPECT_TRUE(pinned());
  Start({"--keep"});
  EXPECT_EQ(Get("/v1/status")["adopted"], true);
}

TEST_F(Daemon, StartsOverWhatAKilledOneLeft) {
  Start();
  daemon_->Signal(SIGKILL);
  EXPECT_EQ(daemon_->Wait(), -1);
  EXPECT_TRUE(std::filesystem::exists(socket()));
  Start();
  EXPECT_EQ(Get("/v1/status")["adopted"], true);
}

TEST_F(Daemon, RemoveCleansUpAfterAKilledOne) {
  Start();
  daemon_->Signal(SIGKILL);
  daemon_->Wait();
  EXPECT_EQ(RunProgram({FAKE_SPILLWAYD, "--run-dir", folder_.File(""), "--remove"}).exit_code, 0);
  EXPECT_FALSE(pinned());
}

TEST_F(Daemon, HangupTakesTheNewFile) {
  Start();
  Edit("capacity: 6", "capacity: 4");
  daemon_->Signal(SIGHUP);
  EXPECT_THAT(notify_.WaitFor("RELOADING=1"), Not(""));
  EXPECT_THAT(notify_.WaitFor("READY=1"), HasSubstr("STATUS=running"));
  EXPECT_EQ(Get("/v1/units")[0]["capacity"], 4);
  EXPECT_THAT(folder_.Read("default.last-good.yaml"), HasSubstr("4"));
}

TEST_F(Daemon, HangupWithABadFileKeepsWhatRuns) {
  Start();
  const std::string saved = folder_.Read("default.last-good.yaml");
  Edit("capacity: 6", "capacity: 0");
  daemon_->Signal(SIGHUP);
  EXPECT_THAT(notify_.WaitFor("READY=1"), HasSubstr("refused"));
  EXPECT_EQ(Get("/v1/units")[0]["capacity"], 6);
  EXPECT_THAT(log(), HasSubstr("pool.yaml:13"));
  EXPECT_EQ(folder_.Read("default.last-good.yaml"), saved);
}

TEST_F(Daemon, ASecondOneIsRefusedAndHarmsNothing) {
  Start();
  const Outcome second = RunProgram(Command());
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, HasSubstr("another spillwayd holds it"));
  EXPECT_TRUE(pinned());
  EXPECT_EQ(Get("/v1/status")["units"]["up"], 2);
}

TEST_F(Daemon, AnApiSocketInUseEndsTheStartAndTakesTheDataPlaneBack) {
  Start();
  const Outcome other = RunProgram(Command({"--instance", "other"}));
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("another program answers on it"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("other.pins")));
  EXPECT_EQ(Get("/v1/status")["instance"], "default");
}

TEST_F(Daemon, GenericModeIsSaidWithItsReason) {
  Start();
  EXPECT_THAT(
      log(),
      HasSubstr("veth0: XDP in generic mode, several times slower than native: the driver has no XDP"));
}

TEST_F(Daemon, KicksTheWatchdogWhenThereIsOne) {
  Start({}, "WATCHDOG_USEC=3000000");
  EXPECT_THAT(notify_.WaitFor("WATCHDOG=1"), Not(""));
}

TEST_F(Daemon, CheckNeedsNoSwitch) {
  const Outcome good = RunProgram(Command({"--check"}));
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_THAT(good.out, HasSubstr("ok, 1 service, 2 units"));
  EXPECT_FALSE(pinned());
  Edit("capacity: 6", "capacity: 0");
  const Outcome bad = RunProgram(Command({"--check"}));
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("pool.yaml:13"));
}

TEST_F(Daemon, BadUsageAndBadFilesExitWithTwo) {
  const std::vector<std::vector<std::string>> kCases = {
      {},
      {"--bogus"},
      {"-c", "/nonexistent/pool.yaml"},
      {"-c", folder_.File("pool.yaml"), "--instance", "../up"},
      {"-c", folder_.File("pool.yaml"), "--api", "0.0.0.0:80"},
      {"-c", folder_.File("pool.yaml"), "--log-level", "loud"},
      {"-c", folder_.File("pool.yaml"), "--metrics", "nine", "--run-dir", folder_.File("")},
      {"--remove", "--keep"},
  };
  for (std::vector<std::string> argv : kCases) {
    argv.insert(argv.begin(), FAKE_SPILLWAYD);
    const Outcome outcome = RunProgram(argv);
    EXPECT_EQ(outcome.exit_code, 2) << argv.back() << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("spillwayd: "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST_F(Daemon, WhereItCannotListenNothingIsAttached) {
  folder_.Write("no.sock", "text");
  const struct {
    std::string option, value, says;
  } kCases[] = {
      {"--metrics", "192.0.2.1:9100", "listen on 192.0.2.1:9100: no interface"},  // nobody's (RFC 5737)
      {"--api", folder_.File("no.sock"), folder_.File("no.sock") + ": exists and is not a socket"},
  };
  for (const auto& bad : kCases) {
    const Outcome outcome = RunProgram({FAKE_SPILLWAYD, "--run-dir", folder_.File(""), "-c",
                                        folder_.File("pool.yaml"), bad.option, bad.value});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, StartsWith("spillwayd: " + bad.option + ": " + bad.says));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(socket()));
  }
  EXPECT_EQ(folder_.Read("no.sock"), "text");
}

TEST_F(Daemon, AnInterfaceInUseExitsWithOne) {
  Edit("veth0", "taken0");
  const Outcome outcome = RunProgram(Command());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("spillwayd: taken0: busy"));
}

TEST_F(Daemon, HelpAndVersionGoToStdout) {
  EXPECT_THAT(RunProgram({FAKE_SPILLWAYD, "--help"}).out, HasSubstr("--keep"));
  const Outcome version = RunProgram({FAKE_SPILLWAYD, "--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, HasSubstr("spillwayd "));
}

TEST_F(Daemon, AUnitThatFailsItsChecksIsTakenOutAndReported) {
  std::string yaml = testing::PoolYaml();
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"address: 10.0.1.1", "address: 127.0.0.1"},
        {"unit_policy: p4mite",
         "unit_policy: p4mite, health: {check: tcp, port: 1, "
         "interval: 20ms}"}})
    yaml.replace(yaml.find(from), from.size(), to);
  folder_.Write("pool.yaml", yaml);
  Start();
  // The other unit's address is nobody's here: whatever becomes of it, this one is refused.
  const auto cpu = [this] { return Get("/v1/units")[0]; };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (cpu()["ejected"] != true && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(cpu()["health"]["state"], "failing");
  EXPECT_EQ(cpu()["health"]["reason"], "connect: Connection refused");
  EXPECT_EQ(cpu()["status"], "up");
  EXPECT_TRUE(cpu()["failing"].is_null()) << "that is its agent's word";
  EXPECT_GE(Get("/v1/status")["units"]["failing_checks"], 1);
  EXPECT_EQ(Get("/v1/status")["units"]["failing"], 0);
  const auto health = Get("/v1/health");
  ASSERT_EQ(health.size(), 2u);
  EXPECT_EQ(health[0]["check"], "tcp 127.0.0.1:1");
  EXPECT_THAT(log(), HasSubstr("health of rack1/s1/cpu, service dns: failing, tcp 127.0.0.1:1: connect: "));
  const Outcome shown = RunProgram({SPILLWAY, "--api", socket(), "show", "health"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("connect: Connection refused"));
  EXPECT_THAT(RunProgram({SPILLWAY, "--api", socket(), "show", "units"}).out, HasSubstr("up ejected"));
  EXPECT_THAT(RunProgram({SPILLWAY, "--api", socket(), "show"}).out, HasSubstr("failing their checks"));
  // Without the check it is nobody's business any more.
  folder_.Write("pool.yaml", testing::PoolYaml());
  daemon_->Signal(SIGHUP);
  EXPECT_THAT(notify_.WaitFor("STATUS=running"), Not(""));
  while (cpu()["ejected"] != false && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(cpu()["ejected"], false);
}

}  // namespace
}  // namespace spillway
