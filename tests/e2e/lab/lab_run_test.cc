// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/fd.h"
#include "base/paths.h"
#include "lab/testbed/process.h"
#include "lab/testbed/state.h"
#include "lab/testbed/testbed.h"

namespace spillway::lab {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

constexpr const char* kName = "e2e-lab";

class LabRun : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::ofstream(folder_ + "/lab.yaml")
        << "testbed:\n  name: " << kName
        << "\n  services:\n    - {name: work, ports: [udp/7000], mode: dsr-l2, affinity: none}\n"
           "  servers:\n    - name: s1\n      units:\n"
           "        - {name: cpu, kind: cpu, capacity: 4, runs: {emulated: {workers: 4, service: 4ms}}}\n"
           "        - {name: nic, kind: smartnic, runs: {emulated: {workers: 1, service: 4ms}}}\n"
           "experiment:\n  name: e2e\n  service: work\n  load_pct: [40]\n  seconds: 1s\n  rounds: 1\n"
           "  policies: [{name: host-only, unit_policy: host-only}, {name: wrr, unit_policy: wrr}]\n";
  }
  // More keys of `experiment`.
  void Add(const std::string& keys) const { std::ofstream(folder_ + "/lab.yaml", std::ios::app) << keys; }
  // Measuring it takes half a minute: by the one test that looks at it.
  void StateCapacity() const { Add("  capacity_rps: 1250\n  unloaded_ms: 4\n"); }
  void TearDown() override { fs::remove_all(folder_); }

  ProcessId StartRun() {
    StartOptions o;
    o.argv = {
        base::ProgramFolder() + "/spillway", "lab", "run", folder_ + "/lab.yaml", "--out", folder_ + "/out"};
    o.stdout_file = o.stderr_file = folder_ + "/log";
    auto id = Start(o);
    EXPECT_TRUE(id) << id.error().message;
    return id.value_or(ProcessId{});
  }
  std::string Log() const {
    std::ifstream in(folder_ + "/log");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Until the run's switch answers at its socket, or the run has ended.
  void AwaitStanding(const ProcessId& run) const {
    while (!fs::exists(TestbedFolder(kName) + "/api.sock") && IsAlive(run)) std::this_thread::yield();
  }
  static std::set<std::string> Standing() {
    std::set<std::string> found;
    for (const std::string& place : {std::string("/run/netns"), std::string("/sys/fs/bpf/spillway"),
                                     std::string("/sys/fs/cgroup/cpu"), std::string(kStateFolder)}) {
      std::error_code none;
      for (const auto& entry : fs::directory_iterator(place, none))
        if (entry.path().filename().string().find(kName) != std::string::npos) found.insert(entry.path());
    }
    return found;
  }

  const std::string folder_ = testing::TempDir() + "lab_run_test";
};

TEST_F(LabRun, WritesItsReportAndLeavesNothing) {
  Add("  predict: true\n");
  const ProcessId run = StartRun();
  auto status = Wait(run);
  ASSERT_TRUE(status) << status.error().message;
  ASSERT_EQ(*status, 0) << Log();
  std::ifstream in(folder_ + "/out/report.json");
  const auto report = nlohmann::json::parse(in);
  ASSERT_EQ(report["rows"].size(), 2u);
  const double capacity = report["ratios"]["capacity_rps"].get<double>();
  EXPECT_LE(capacity, 1250 * 1.1) << "5 workers of 4 ms";
  for (const auto& row : report["rows"]) {
    EXPECT_EQ(row["load_pct"], 40);
    EXPECT_NEAR(row["rps"].get<double>(), 0.4 * capacity, 0.1 * capacity);
    EXPECT_GT(row["p99_ms"].get<double>(), 4 * 0.5);
    EXPECT_GE(row["p99_ms"], row["p50_ms"]);
    EXPECT_GT(row["answered_pct"].get<double>(), 0) << "how many depends on what else this machine does";
    EXPECT_LE(row["answered_pct"].get<double>(), 100);
    EXPECT_GT(row["predicted_p50_ms"].get<double>(), 4 * 0.9);
    EXPECT_GE(row["predicted_p99_ms"], row["predicted_p50_ms"]);
    EXPECT_EQ(row["predicted_loss"], 0);
  }
  EXPECT_EQ(report["rows"][0]["policy"], "host-only");
  EXPECT_TRUE(fs::exists(folder_ + "/out/report.html"));
  EXPECT_THAT(Standing(), testing::IsEmpty());
}

TEST_F(LabRun, LargerRequestsMeetATestbedOfTheirOwnAtTheFirstLevelsRate) {
  StateCapacity();
  Add("  grow: work\n  quick: {load_pct: [10, 40]}\n");
  StartOptions o;
  o.argv = {base::ProgramFolder() + "/spillway",
            "lab",
            "run",
            folder_ + "/lab.yaml",
            "--quick",
            "--out",
            folder_ + "/out"};
  o.stdout_file = o.stderr_file = folder_ + "/log";
  auto status = Start(o).and_then([](const ProcessId& id) { return Wait(id); });
  ASSERT_TRUE(status && *status == 0) << Log();
  std::ifstream in(folder_ + "/out/report.json");
  const auto report = nlohmann::json::parse(in);
  const double capacity = report["ratios"]["capacity_rps"].get<double>();
  const auto& rows = report["rows"];
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[3]["load_pct"], 40);
  EXPECT_EQ(rows[3]["work"], 4);
  EXPECT_NEAR(rows[3]["rps"].get<double>(), 0.1 * capacity, 0.05 * capacity);
  EXPECT_GT(rows[3]["p50_ms"].get<double>(), 16 * 0.5) << "four times the work";
  EXPECT_THAT(Standing(), testing::IsEmpty());
}

TEST_F(LabRun, ComparePlaysThePoliciesAskedForInAnOrderThatTheSeedRepeats) {
  StateCapacity();
  StartOptions o;
  o.argv = {base::ProgramFolder() + "/spillway",
            "lab",
            "compare",
            folder_ + "/lab.yaml",
            "--policies",
            "wrr,p2c+least-loaded",
            "--baseline",
            "wrr",
            "--loads",
            "40",
            "--slices",
            "4",
            "--seconds",
            "0.3",
            "--seed",
            "5",
            "--json"};
  o.stdout_file = folder_ + "/report.json";
  o.stderr_file = folder_ + "/log";
  auto status = Start(o).and_then([](const ProcessId& id) { return Wait(id); });
  ASSERT_TRUE(status && *status == 0) << Log();
  std::ifstream in(folder_ + "/report.json");
  const auto report = nlohmann::json::parse(in);
  EXPECT_EQ(report["bench"], "lab.compare.e2e");
  EXPECT_EQ(report["rounds"], 4);
  EXPECT_EQ(report["ratios"]["seed"], 5);
  ASSERT_EQ(report["rows"].size(), 2u);
  const auto& row = report["rows"][1];
  EXPECT_EQ(row["policy"], "p2c+least-loaded");
  EXPECT_EQ(row["slices"], 4);
  EXPECT_EQ(row["baseline"], "wrr");
  EXPECT_LE(row["p99_over_baseline_low"], row["p99_over_baseline_high"]);
  EXPECT_TRUE(row.contains("client_late_p99_ms"));
  EXPECT_FALSE(report["rows"][0].contains("baseline"));
  EXPECT_THAT(Standing(), testing::IsEmpty());
}

TEST_F(LabRun, AnInterruptTakesTheTestbedDown) {
  StateCapacity();
  const ProcessId run = StartRun();
  AwaitStanding(run);
  ASSERT_THAT(Standing(), testing::Not(testing::IsEmpty())) << Log();
  kill(run.pid, SIGINT);
  auto status = Wait(run);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(*status, 130);
  EXPECT_THAT(Log(), HasSubstr("interrupted"));
  EXPECT_THAT(Standing(), testing::IsEmpty());
}

TEST_F(LabRun, AnInterruptedComparisonGivesTheRoundsThatWereFinished) {
  StateCapacity();
  StartOptions o;
  o.argv = {base::ProgramFolder() + "/spillway",
            "lab",
            "compare",
            folder_ + "/lab.yaml",
            "--policies",
            "wrr,p2c+least-loaded",
            "--loads",
            "40,60",
            "--slices",
            "1000",
            "--seconds",
            "0.3",
            "--json"};
  o.stdout_file = folder_ + "/report.json";
  o.stderr_file = folder_ + "/log";
  const auto run = Start(o);
  ASSERT_TRUE(run) << run.error().message;
  while (IsAlive(*run) && Log().find("round 3 of 1000") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(run->pid, SIGINT);
  const auto status = Wait(*run);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(*status, 130) << Log();
  EXPECT_THAT(Log(), HasSubstr("spillway: interrupted: these are the rounds that were finished"));
  std::ifstream in(folder_ + "/report.json");
  const auto report = nlohmann::json::parse(in);
  ASSERT_EQ(report["rows"].size(), 2u) << "of the load at which it was interrupted";
  for (const auto& row : report["rows"]) {
    EXPECT_EQ(row["slices"], report["rows"][0]["slices"]);
    EXPECT_GE(row["slices"], 2);
    EXPECT_LT(row["slices"], 1000);
    EXPECT_EQ(row["interrupted"], true);
  }
  EXPECT_EQ(report["ratios"]["interrupted"], 1);
  EXPECT_THAT(Standing(), testing::IsEmpty());
}

// It says what root removes.
// spw-e2e-lab-client may be the client's of testbed e2e-lab, or unit lab-client's of testbed e2e, or
// anybody's.
TEST_F(LabRun, ANamespaceThatSomebodyElseMadeIsLeftAlone) {
  const std::string netns = NetnsName(kName, "client"), path = "/run/netns/" + netns;
  ASSERT_TRUE(lab::Run({"ip", "netns", "add", netns}));
  StartOptions o;
  o.argv = {"sleep", "600"};
  o.netns = netns;
  const auto lives_there = Start(o);
  ASSERT_TRUE(lives_there) << lives_there.error().message;
  const ProcessId run = StartRun();
  const auto status = Wait(run);
  EXPECT_TRUE(IsAlive(*lives_there)) << "and what runs in it";
  EXPECT_TRUE(fs::exists(path));
  EXPECT_TRUE(status && *status != 0);
  EXPECT_THAT(Log(), HasSubstr(netns + " already exists"));
  Stop({*lives_there}, std::chrono::milliseconds(500));
  (void)lab::Run({"ip", "netns", "del", netns}).has_value();
  EXPECT_THAT(Standing(), testing::IsEmpty());
}

TEST_F(LabRun, WaitsWhileAnotherProgramMakesATestbed) {
  fs::create_directories(kStateFolder);
  const base::Fd lock(open(kStateFolder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  const ProcessId run = StartRun();
  const auto waits = [&] {  // "1: -> FLOCK  ADVISORY  WRITE 4711 ..."
    std::ifstream in("/proc/locks");
    std::string line;
    while (std::getline(in, line))
      if (line.find("-> FLOCK") != line.npos && line.find(fmt::format(" {} ", run.pid)) != line.npos)
        return true;
    return false;
  };
  while (!waits() && Standing().empty() && IsAlive(run)) std::this_thread::yield();
  EXPECT_THAT(Standing(), testing::IsEmpty());
  EXPECT_TRUE(waits()) << Log();
  kill(run.pid, SIGINT);
  EXPECT_TRUE(Wait(run));
  EXPECT_THAT(Standing(), testing::IsEmpty());
}

TEST_F(LabRun, AStateFileThatNamesWhatNoTestbedMakesIsNone) {
  State state{.name = "e2e-state", .owner = {}, .namespaces = {"spw-e2e-state-switch"}, .processes = {}};
  ASSERT_TRUE(SaveState(state));
  EXPECT_TRUE(LoadState("e2e-state"));
  state.namespaces = {"spw-e2e-state-x/../../../tmp/file"};
  ASSERT_TRUE(SaveState(state));
  EXPECT_FALSE(LoadState("e2e-state"));
  state.namespaces = {"another"};
  ASSERT_TRUE(SaveState(state));
  EXPECT_FALSE(LoadState("e2e-state"));
  RemoveState("e2e-state");
  EXPECT_FALSE(LoadState("../lab/e2e-state"));
}

TEST_F(LabRun, TheNextRunClearsWhatAKilledOneLeft) {
  StateCapacity();
  const ProcessId killed = StartRun();
  AwaitStanding(killed);
  kill(killed.pid, SIGKILL);
  ASSERT_TRUE(Wait(killed));
  ASSERT_THAT(Standing(), Contains(HasSubstr("/run/netns/"))) << "else there is nothing to clear";
  const ProcessId run = StartRun();
  auto status = Wait(run);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(*status, 0) << Log();
  EXPECT_THAT(Standing(), testing::IsEmpty());
}

}  // namespace
}  // namespace spillway::lab
