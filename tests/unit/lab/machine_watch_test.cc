// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/machine_watch.h"

#include <gtest/gtest.h>

namespace spillway::lab {
namespace {

TEST(MachineWatch, StolenTimeIsTheEighthFieldOfEachWatchedCpusLine) {
  const char* const text =
      "cpu  100 1 50 800 4 2 3 400 7 7\ncpu1 100 1 50 800 4 2 3 40 7 7\n"
      "cpu2 1 1 1 1 1 1 1 5 1 1\ncpu12 9 9 9 9 9 9 9 9 9 9\nintr 5\n";
  const CpuTicks ticks = ParseCpuTicks(text, {1});
  EXPECT_EQ(ticks.stolen, 40u);
  EXPECT_EQ(ticks.total, 1000u) << "guest time is part of user time";
  EXPECT_EQ(ParseCpuTicks(text, {1, 2}).stolen, 45u);
  EXPECT_EQ(ParseCpuTicks(text, {3}).total, 0u);
  EXPECT_EQ(ParseCpuTicks("intr 5", {0}).total, 0u);
  EXPECT_EQ(ParseCpuTicks("cpu0 1 2", {0}).total, 0u);
}

TEST(MachineWatch, OtherCpusDoNotCountWhereClientAndUnitsAreBothPinned) {
  EXPECT_EQ(CpusToWatch({5}, {7, 6, 5}), (std::vector<int>{5, 6, 7}));
  EXPECT_TRUE(CpusToWatch({}, {1}).empty());
  EXPECT_TRUE(CpusToWatch({0}, {}).empty());
}

TEST(MachineWatch, ALateWakeUpOrStolenTimeDisturbs) {
  EXPECT_FALSE((Disturbance{0, 2.9, 0.5}).disturbed());
  EXPECT_TRUE((Disturbance{1, 3.1, 0}).disturbed());
  EXPECT_TRUE((Disturbance{0, 0.1, 2}).disturbed());
}

TEST(MachineWatch, StartsAndStops) {
  MachineWatch watch({});
  watch.Begin();
  const Disturbance seen = watch.End();
  EXPECT_GE(seen.stolen_pct, 0);
  EXPECT_GE(seen.worst_ms, 0);
}

}  // namespace
}  // namespace spillway::lab
