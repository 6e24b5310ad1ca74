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

}  // namespace
}  // namespace spillway::lab
