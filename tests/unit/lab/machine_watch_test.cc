// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/machine_watch.h"

#include <gtest/gtest.h>

namespace spillway::lab {
namespace {

TEST(MachineWatch, StolenTimeIsTheEighthFieldOfAllCpusLine) {
  const CpuTicks ticks = ParseCpuTicks("cpu  100 1 50 800 4 2 3 40 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
  EXPECT_EQ(ticks.stolen, 40u);
  EXPECT_EQ(ticks.total, 1000u) << "guest time is part of user time";
  EXPECT_EQ(ParseCpuTicks("intr 5").total, 0u);
  EXPECT_EQ(ParseCpuTicks("cpu 1 2").total, 0u);
}

TEST(MachineWatch, ALateWakeUpOrStolenTimeDisturbs) {
  EXPECT_FALSE((Disturbance{0, 2.9, 0.5}).disturbed());
  EXPECT_TRUE((Disturbance{1, 3.1, 0}).disturbed());
  EXPECT_TRUE((Disturbance{0, 0.1, 2}).disturbed());
}

TEST(MachineWatch, StartsAndStops) {
  MachineWatch watch;
  watch.Begin();
  const Disturbance seen = watch.End();
  EXPECT_GE(seen.stolen_pct, 0);
  EXPECT_GE(seen.worst_ms, 0);
}

}  // namespace
}  // namespace spillway::lab
