// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "base/paths.h"
#include "lab/testbed/process.h"
#include "lab/testbed/state.h"
#include "lab/testbed/testbed.h"

namespace spillway::lab {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool IsInstalled(const std::string& program) {
  std::istringstream folders(getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0) return true;
  return false;
}

class ReactionBench : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    if (!IsInstalled("nginx")) GTEST_SKIP() << "needs nginx";
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  ProcessId StartBench(const std::vector<std::string>& words) {
    StartOptions o;
    o.argv = {base::ProgramFolder() + "/spillway",
              "bench",
              "reaction",
              "--json",
              "--bed",
              "nginx",
              "--policies",
              "wrr",
              "--rounds",
              "1"};
    o.argv.insert(o.argv.end(), words.begin(), words.end());
    o.stdout_file = folder_ + "/out";
    o.stderr_file = folder_ + "/log";
    auto id = Start(o);
    EXPECT_TRUE(id) << id.error().message;
    return id.value_or(ProcessId{});
  }
  std::string Log() const { return ReadFile(folder_ + "/log"); }

  // What there is of the testbed of a bench.
  static std::set<std::string> Standing(const ProcessId& bench) {
    const std::string name = fmt::format("reaction{}", bench.pid);
    std::set<std::string> found;
    for (const std::string& place : {std::string("/run/netns"), std::string("/sys/fs/bpf/spillway"),
                                     std::string("/sys/fs/cgroup/cpu"), std::string(kStateFolder)}) {
      std::error_code none;
      for (const auto& entry : fs::directory_iterator(place, none))
        if (entry.path().filename().string().find(name) != std::string::npos) found.insert(entry.path());
    }
    return found;
  }
  // Processes of nginx that are stopped, in the units' namespaces.
  static std::vector<ProcessId> Stopped(const ProcessId& bench) {
    std::vector<ProcessId> stopped;
    for (const char* unit : {"s1-cpu", "s1-cpu2", "s2-cpu"})
      for (const ProcessId& id : ProcessesIn(fmt::format("spw-reaction{}-{}", bench.pid, unit)))
        if (ReadFile(fmt::format("/proc/{}/stat", id.pid)).find("(nginx) T ") != std::string::npos)
          stopped.push_back(id);
    return stopped;
  }

  const std::string folder_ = testing::TempDir() + "reaction_bench_test";
};

TEST_F(ReactionBench, EachFaultIsUndoneSoThatTheNextRoundFindsAllWell) {
  const ProcessId bench =
      StartBench({"--health", "passive", "--faults", "process-killed,link-down,fails-fast,unit-slow"});
  const auto status = Wait(bench);
  ASSERT_TRUE(status) << status.error().message;
  ASSERT_EQ(*status, 0) << Log();
  const auto document = nlohmann::json::parse(ReadFile(folder_ + "/out"));
  std::set<std::string> faults;
  int judged = 0;
  for (const auto& row : document.at("rows")) {
    faults.insert(row.at("fault"));
    if (row.at("rounds") == 0) {  // a machine too busy to tell: each try was disturbed
      EXPECT_GT(row.at("disturbed"), 0) << row;
      continue;
    }
    judged++;
    if (row.at("fault") == "process-killed" || row.at("fault") == "link-down") {
      EXPECT_EQ(row.at("undetected"), 0) << row;
      EXPECT_TRUE(row.at("back_ms_p50").is_number()) << row;
    }
    // Errors are lost questions, even if nobody says that the unit fails.
    if (row.at("fault") == "fails-fast") {
      EXPECT_GT(row.at("lost"), 0) << row;
    }
    if (row.at("fault") == "unit-slow") {
      EXPECT_GT(row.at("late_pct"), 0) << row;
    }
  }
  EXPECT_EQ(faults.size(), 4u);
  EXPECT_GT(judged, 0);
  EXPECT_THAT(Standing(bench), IsEmpty());
}

TEST_F(ReactionBench, AnInterruptLeavesNoStoppedProcessAndNoTestbed) {
  for (const char* fault : {"process-stopped", "unit-slow"}) {
    const ProcessId bench = StartBench({"--health", "passive", "--faults", fault});
    std::vector<ProcessId> stopped;
    while ((stopped = Stopped(bench)).empty() && IsAlive(bench)) std::this_thread::yield();
    ASSERT_FALSE(stopped.empty()) << Log();
    kill(bench.pid, SIGINT);
    const auto status = Wait(bench);
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_NE(*status, 0);
    EXPECT_THAT(Log(), HasSubstr("interrupted"));
    for (const ProcessId& id : stopped) EXPECT_FALSE(IsAlive(id));
    EXPECT_THAT(Standing(bench), IsEmpty());
  }
}

}  // namespace
}  // namespace spillway::lab
