// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/slow_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::lab {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

using Slices = std::vector<std::vector<UnitWork>>;

// Two units; a packet takes 1 ms on the first, 4 on the second, and in this slice so many times as long.
std::vector<UnitWork> Took(double times, uint64_t first = 200, uint64_t second = 50) {
  return {{times * 1e-3 * static_cast<double>(first), first},
          {times * 4e-3 * static_cast<double>(second), second}};
}

TEST(SlowSlices, AreThoseInWhichPacketsTookMoreCpuTimeThanInTheQuickerOnes) {
  const auto slowness = SlownessOf({Took(1), Took(1.4), Took(1), Took(1.1), Took(1.4), Took(1)});
  ASSERT_EQ(slowness.size(), 6u);
  EXPECT_NEAR(*slowness[0], 1, 1e-9);
  EXPECT_NEAR(*slowness[1], 1.4, 1e-9);
  EXPECT_NEAR(*slowness[3], 1.1, 1e-9);
}

TEST(SlowSlices, ASliceIsNotSlowBecauseMoreWentToTheSlowerUnit) {
  const auto slowness = SlownessOf({Took(1, 200, 40), Took(1, 100, 100), Took(1, 40, 200), Took(1)});
  for (const auto& one : slowness) EXPECT_NEAR(*one, 1, 1e-9);
}

TEST(SlowSlices, AUnitWithFewPacketsTellsNothing) {
  Slices slices(6, Took(1, 200, 29));
  slices[2][1].cpu_seconds *= 100;
  EXPECT_NEAR(*SlownessOf(slices)[2], 1, 1e-9);
  for (auto& slice : slices) slice[0].packets = 0;
  for (const auto& one : SlownessOf(slices)) EXPECT_FALSE(one);
}

TEST(SlowSlices, TooFewSlicesTellNothing) {
  for (const auto& one : SlownessOf({Took(1), Took(1.4), Took(1)})) EXPECT_FALSE(one);
  EXPECT_TRUE(SlownessOf({}).empty());
  for (const auto& one : SlownessOf({{}, {}, {}, {}})) EXPECT_FALSE(one) << "nothing known of units";
}

TEST(SlowRounds, AreAsSlowAsTheirSlowestSliceEachPolicyMeasuredByItself) {
  Slices dear(5, Took(2)), cheap(5, Took(1));  // dear always: its units' caches, say
  cheap[3] = Took(1.3);
  cheap[4] = Took(1.5);
  dear[3] = Took(3.2);
  EXPECT_THAT(SlownessOfRounds({dear, cheap}),
              ElementsAre(DoubleEq(1), DoubleEq(1), DoubleEq(1), DoubleEq(1.6), DoubleEq(1.5)));
  EXPECT_THAT(SlownessOfRounds({Slices(2, Took(1))}), ElementsAre(0, 0)) << "too few to tell";
}

}  // namespace
}  // namespace spillway::lab
