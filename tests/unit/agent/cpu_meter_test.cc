// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/cpu_meter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class CgroupTest : public ::testing::Test {
 protected:
  CgroupTest() : root_(fs::temp_directory_path() / ("spillway_cgroup_" + std::to_string(getpid()))) {}
  ~CgroupTest() override { fs::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  Result<CpuUsage> Read(const std::string& group) {
    return FindCgroup(group, root_).and_then([](const CgroupFiles& files) { return ReadCgroup(files, 16); });
  }
  fs::path root_;
};

TEST_F(CgroupTest, VersionTwoAgainstItsQuota) {
  Write("unit/cpu.stat", "usage_usec 1500000\nuser_usec 1\nsystem_usec 2\n");
  Write("unit/cpu.max", "150000 100000\n");
  const auto usage = Read("/unit");
  ASSERT_TRUE(usage) << usage.error().message;
  EXPECT_DOUBLE_EQ(usage->used_ns, 1.5e9);
  EXPECT_DOUBLE_EQ(usage->cpus, 1.5);
}

TEST_F(CgroupTest, OneThatIsNoneIsToldWithItsLine) {
  AgentConfig config;
  config.meter.cgroup = "/no-such-group";
  config.places["meter.cgroup"] = "a.yaml:6: meter.cgroup";
  const auto meter = OpenCpuMeter(config);
  ASSERT_FALSE(meter);
  EXPECT_EQ(meter.error().code, ErrorCode::kBadInput);
  EXPECT_TRUE(meter.error().message.starts_with("a.yaml:6: meter.cgroup: cgroup /no-such-group: expected"));
}

TEST_F(CgroupTest, NoQuotaIsTheWholeMachine) {
  Write("unit/cpu.stat", "usage_usec 1\n");
  Write("unit/cpu.max", "max 100000\n");
  EXPECT_DOUBLE_EQ(Read("/unit")->cpus, 16);
}

TEST_F(CgroupTest, VersionOneInTwoHierarchies) {
  Write("cpuacct/a/unit/cpuacct.usage", "123456789\n");
  Write("cpu/a/unit/cpu.cfs_quota_us", "50000\n");
  Write("cpu/a/unit/cpu.cfs_period_us", "100000\n");
  for (const std::string& group :
       {std::string("/a/unit"), (root_ / "cpu/a/unit").string(), (root_ / "cpuacct/a/unit").string()}) {
    const auto usage = Read(group);
    ASSERT_TRUE(usage) << usage.error().message;
    EXPECT_DOUBLE_EQ(usage->used_ns, 123456789) << group;
    EXPECT_DOUBLE_EQ(usage->cpus, 0.5) << group;
  }
  Write("cpu/a/unit/cpu.cfs_quota_us", "-1\n");
  EXPECT_DOUBLE_EQ(Read("/a/unit")->cpus, 16);
}

TEST_F(CgroupTest, MissingGroupSaysWhatWasExpected) {
  const auto usage = Read("/nowhere");
  ASSERT_FALSE(usage);
  EXPECT_NE(usage.error().message.find("cpuacct.usage"), std::string::npos);
}

TEST(ProcStat, IdleAndWaitingForDisksAreNotUse) {
  const auto usage =
      ParseProcStat("cpu  10 20 30 1000 500 1 2 3 10 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5\n", 100);
  ASSERT_TRUE(usage);
  EXPECT_DOUBLE_EQ(usage->used_ns, 0.66e9);
  EXPECT_DOUBLE_EQ(usage->cpus, 2);
  EXPECT_FALSE(ParseProcStat("nonsense", 100));
}

TEST(CpuWindow, ApproachesTheShareInUse) {
  CpuWindow window(100ms);
  EXPECT_FALSE(window.Update(0ms, {0, 2}));
  EXPECT_FALSE(window.Update(5ms, {1e6, 2})) << "shorter than a step of /proc/stat";
  std::optional<double> share;
  for (int i = 1; i <= 100; i++) share = window.Update(i * 20ms, {i * 30e6, 2});  // 30 of 40 ms
  EXPECT_NEAR(*share, 0.75, 1e-6);
}

}  // namespace
}  // namespace spillway::agent
