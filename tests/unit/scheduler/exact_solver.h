// SPDX-License-Identifier: Apache-2.0
// Tests that ask cbc; skipped where there is none.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/oracle/cbc.h"

namespace spillway::scheduler {

class Exact : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto probe = SolveWithCbc("Minimize\n obj: x\nSubject To\n c: x >= 1\nBinary\n x\nEnd\n", 10);
    if (!probe && probe.error().code == ErrorCode::kUnavailable) GTEST_SKIP() << probe.error().message;
    ASSERT_TRUE(probe) << probe.error().message;
    EXPECT_DOUBLE_EQ(probe->objective, 1);
    EXPECT_THAT(probe->ones, ::testing::ElementsAre("x"));
  }
};

}  // namespace spillway::scheduler
