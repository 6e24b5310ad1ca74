// SPDX-License-Identifier: Apache-2.0
#include "base/log_allowance.h"

#include <gtest/gtest.h>

namespace spillway::base {
namespace {

TEST(LogAllowance, TenLinesASecondAndHowManyWereKeptBack) {
  LogAllowance allowance;
  const LogAllowance::Moment begin{std::chrono::hours(1)};
  for (int i = 0; i < 10; i++) EXPECT_EQ(allowance.Ask(begin), 0u) << i;
  for (int i = 0; i < 7; i++) EXPECT_FALSE(allowance.Ask(begin + std::chrono::milliseconds(999))) << i;
  EXPECT_EQ(allowance.Ask(begin + std::chrono::seconds(1)), 7u);
  EXPECT_EQ(allowance.Ask(begin + std::chrono::seconds(1)), 0u);
}

}  // namespace
}  // namespace spillway::base
