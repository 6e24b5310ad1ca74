// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/cgroup_quota.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class CgroupQuotaTest : public ::testing::Test {
 protected:
  CgroupQuotaTest() : root_(fs::temp_directory_path() / ("spillway_quota_" + std::to_string(getpid()))) {}
  ~CgroupQuotaTest() override { fs::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::unique_ptr<CgroupQuota> Open(const std::string& group) {
    auto opened = CgroupQuota::Open(group, root_);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  fs::path root_;
};

TEST_F(CgroupQuotaTest, VersionTwo) {
  Write("unit/cpu.stat", "usage_usec 1500\nuser_usec 1000\nnr_periods 42\nnr_throttled 7\n");
  Write("unit/cpu.max", "20000 100000\n");
  const auto quota = Open("/unit");
  const auto reading = quota->Read(1s);
  ASSERT_TRUE(reading);
  EXPECT_DOUBLE_EQ(reading->used_ns, 1.5e6);
  EXPECT_DOUBLE_EQ(reading->quota_ns, 20e6);
  EXPECT_DOUBLE_EQ(reading->period_ns, 100e6);
  EXPECT_EQ(reading->periods, 42u);
  Write("unit/cpu.stat", "usage_usec 1700\nuser_usec 1000\nnr_periods 43\nnr_throttled 0\n");
  EXPECT_DOUBLE_EQ(quota->Read(1001ms)->used_ns, 1.7e6);  // read anew, not opened
}

TEST_F(CgroupQuotaTest, VersionOneWithItsHierarchiesApart) {
  Write("cpuacct/a/unit/cpuacct.usage", "123456789\n");
  Write("cpu/a/unit/cpu.cfs_quota_us", "2000\n");
  Write("cpu/a/unit/cpu.cfs_period_us", "10000\n");
  Write("cpu/a/unit/cpu.stat", "nr_periods 9\nnr_throttled 1\nthrottled_time 5\n");
  const auto reading = Open("/a/unit")->Read(1s);
  ASSERT_TRUE(reading);
  EXPECT_DOUBLE_EQ(reading->used_ns, 123456789);
  EXPECT_DOUBLE_EQ(reading->quota_ns, 2e6);
  EXPECT_DOUBLE_EQ(reading->period_ns, 10e6);
  EXPECT_EQ(reading->periods, 9u);
}

TEST_F(CgroupQuotaTest, AQuotaMayComeAndGo) {
  Write("unit/cpu.stat", "usage_usec 1500\nnr_periods 42\nnr_throttled 0\n");
  Write("unit/cpu.max", "max 100000\n");
  const auto quota = Open("/unit");
  EXPECT_FALSE(quota->Read(1s));
  Write("unit/cpu.max", "20000 100000\n");
  EXPECT_FALSE(quota->Read(1500ms));  // not looked for at each look
  EXPECT_TRUE(quota->Read(2s));
  Write("unit/cpu.max", "max 100000\n");
  EXPECT_FALSE(quota->Read(3s));
}

TEST_F(CgroupQuotaTest, AControllerThatIsTurnedOnLaterIsSeen) {
  Write("unit/cpu.stat", "usage_usec 1500\nnr_periods 0\nnr_throttled 0\n");
  const auto quota = Open("/unit");
  EXPECT_FALSE(quota->Read(1s));
  Write("unit/cpu.max", "20000 100000\n");
  EXPECT_TRUE(quota->Read(2s));
}

TEST_F(CgroupQuotaTest, OfAServiceItIsLookedForUntilSomebodyServes) {
  Write("proc/net/udp", "head\n");
  Write("group/cpu.stat", "usage_usec 1500\nnr_periods 0\nnr_throttled 0\n");
  Write("group/cpu.max", "20000 100000\n");
  const auto quota =
      CgroupQuota::OfService(ServiceCgroup({{.tcp = false, .port = 53}}, root_ / "proc"), root_);
  EXPECT_FALSE(quota->Read(1s));
  Write("proc/net/udp", "head\n 1: 00000000:0035 00000000:0000 07 0:0 0:0 0 0 0 700\n");
  Write("proc/41/cgroup", "0::/group\n");
  fs::create_directories(root_ / "proc/41/fd");
  fs::create_symlink("socket:[700]", root_ / "proc/41/fd/3");
  EXPECT_TRUE(quota->Read(3s));
  fs::remove_all(root_ / "group");
  EXPECT_FALSE(quota->Read(4s));
  Write("proc/41/cgroup", "0::/anew\n");
  Write("anew/cpu.stat", "usage_usec 7\nnr_periods 0\nnr_throttled 0\n");
  Write("anew/cpu.max", "20000 100000\n");
  std::optional<QuotaReading> reading;
  for (std::chrono::seconds at{5}; at <= 10s && !reading; at += 1s) reading = quota->Read(at);
  ASSERT_TRUE(reading);
  EXPECT_DOUBLE_EQ(reading->used_ns, 7000);
}

TEST_F(CgroupQuotaTest, AQuotaWithBurstsIsNone) {
  Write("unit/cpu.stat", "usage_usec 1500\nnr_periods 42\nnr_throttled 0\n");
  Write("unit/cpu.max", "20000 100000\n");
  Write("unit/cpu.max.burst", "10000\n");
  const auto quota = Open("/unit");
  EXPECT_FALSE(quota->Read(1s));
  Write("unit/cpu.max.burst", "0\n");
  EXPECT_TRUE(quota->Read(2s));
}

TEST_F(CgroupQuotaTest, AGroupThatIsMadeAnewIsFoundAgain) {
  Write("unit/cpu.stat", "usage_usec 1500\nnr_periods 42\nnr_throttled 0\n");
  Write("unit/cpu.max", "20000 100000\n");
  const auto quota = Open("/unit");
  ASSERT_TRUE(quota->Read(1s));
  fs::remove_all(root_ / "unit");
  EXPECT_FALSE(quota->Read(2s));
  Write("unit/cpu.stat", "usage_usec 3\nnr_periods 1\nnr_throttled 0\n");
  Write("unit/cpu.max", "20000 100000\n");
  const auto reading = quota->Read(3s);
  ASSERT_TRUE(reading);
  EXPECT_DOUBLE_EQ(reading->used_ns, 3000);
}

TEST_F(CgroupQuotaTest, WhatIsNoAccountIsNoReading) {
  Write("unit/cpu.stat", "usage_usec many\nnr_periods 42\nnr_throttled 0\n");
  Write("unit/cpu.max", "20000 100000\n");
  EXPECT_FALSE(Open("/unit")->Read(1s));
}

TEST_F(CgroupQuotaTest, NoSuchGroupIsAnError) {
  const auto opened = CgroupQuota::Open("/none", root_);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("cgroup /none"), std::string::npos);
}

}  // namespace
}  // namespace spillway::agent
