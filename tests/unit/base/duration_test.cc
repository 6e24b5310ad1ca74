// SPDX-License-Identifier: Apache-2.0
#include "base/duration.h"

#include <gtest/gtest.h>

namespace spillway::base {
namespace {

using namespace std::chrono_literals;

TEST(Duration, IsANumberAndItsUnit) {
  EXPECT_EQ(ParseDuration("250ns"), 250ns);
  EXPECT_EQ(ParseDuration("500us"), 500us);
  EXPECT_EQ(ParseDuration("1.5ms"), 1500us);
  EXPECT_EQ(ParseDuration("0s"), 0ns);
  EXPECT_EQ(ParseDuration("1m"), 60s);
  EXPECT_EQ(ParseDuration("1.5h"), 90min);
  for (const char* text : {"", "0", "5", "ms", "5 ms", " 5ms", "-1s", "1d", "nan", "nans", "infs", "1e300s",
                           "5msx", "+1s", "9e9s"})
    EXPECT_FALSE(ParseDuration(text)) << text;
}

TEST(Duration, IsWrittenInTheLargestWholeUnit) {
  EXPECT_EQ(DurationText(0ns), "0s");
  EXPECT_EQ(DurationText(1500us), "1500us");
  EXPECT_EQ(DurationText(90s), "90s");
  EXPECT_EQ(DurationText(2h), "2h");
  EXPECT_EQ(DurationText(1ns), "1ns");
  EXPECT_EQ(DurationText(-20ms), "-20ms");
}

}  // namespace
}  // namespace spillway::base
