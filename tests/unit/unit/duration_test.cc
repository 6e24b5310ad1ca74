// SPDX-License-Identifier: Apache-2.0
#include "lab/unit/options.h"

#include <gtest/gtest.h>

namespace spillway::unit {
namespace {

TEST(Duration, ReadsUnits) {
  using std::chrono::nanoseconds;
  EXPECT_EQ(ParseDuration("500us"), nanoseconds(500'000));
  EXPECT_EQ(ParseDuration("1.5ms"), nanoseconds(1'500'000));
  EXPECT_EQ(ParseDuration("2"), nanoseconds(2'000'000'000));
  EXPECT_EQ(ParseDuration("1m"), nanoseconds(60'000'000'000));
  EXPECT_EQ(ParseDuration("0"), nanoseconds(0));
}

TEST(Duration, RefusesNonsense) {
  for (const char* text : {"", "ms", "5 ms", "-1s", "1d", "nan", "inf", "1e300s", "5msx"})
    EXPECT_FALSE(ParseDuration(text).has_value()) << text;
}

}  // namespace
}  // namespace spillway::unit
