// SPDX-License-Identifier: Apache-2.0
#include "lab/testbed/cgroup.h"

#include <gtest/gtest.h>

namespace spillway::lab {
namespace {

constexpr const char* kMounts =
    "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n"
    "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";

TEST(CpuController, IsFoundInVersion1EvenBesideVersion2) {
  auto root =
      FindCpuController(std::string(kMounts) + "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n",
                        [](const std::string&) { return "memory pids\n"; });
  ASSERT_TRUE(root);
  EXPECT_EQ(root->path, "/sys/fs/cgroup/cpu");
  EXPECT_EQ(root->version, 1);
}

TEST(CpuController, IsFoundInVersion2WhereItIsOffered) {
  auto root = FindCpuController(kMounts, [](const std::string&) { return "memory cpu\n"; });
  ASSERT_TRUE(root);
  EXPECT_EQ(root->version, 2);
}

TEST(CpuController, CpusetIsNotTaken) {
  EXPECT_FALSE(FindCpuController(kMounts, [](const std::string&) { return "cpuset\n"; }));
}

TEST(CpuAccounts, AreWithTheControllerOrInVersion1sHierarchyOfTheirOwn) {
  const std::string apart = "cgroup /sys/fs/cgroup/cpuacct cgroup rw,cpuacct 0 0\n",
                    joint = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n";
  EXPECT_EQ(FindCpuAccounts(kMounts + apart, {"/sys/fs/cgroup/cpu", 1}), "/sys/fs/cgroup/cpuacct");
  EXPECT_EQ(FindCpuAccounts(kMounts + joint, {"/sys/fs/cgroup/cpu,cpuacct", 1}), "");
  EXPECT_EQ(FindCpuAccounts(kMounts + apart, {"/sys/fs/cgroup/unified", 2}), "");
}

}  // namespace
}  // namespace spillway::lab
