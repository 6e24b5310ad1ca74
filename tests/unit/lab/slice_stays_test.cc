// SPDX-License-Identifier: Apache-2.0
#include "lab/gpus/slice_stays.h"

#include <gtest/gtest.h>

namespace spillway::lab {
namespace {

TEST(SliceStays, ThoseThatBeginTogetherAreDrawnSideBySide) {
  SliceStays stays;
  stays.Look({{1, "h/g", "a", 0.5}, {2, "h/g", "b", 0.25}, {3, "h/other", "c", 1}}, 1);
  ASSERT_EQ(stays.all().size(), 3u);
  EXPECT_EQ(stays.all()[0].low, 0);
  EXPECT_EQ(stays.all()[1].low, 0.5);
  EXPECT_EQ(stays.all()[2].low, 0);
}

TEST(SliceStays, WhoHasGoneLeavesItsRoomAndItsTime) {
  SliceStays stays;
  stays.Look({{1, "g", "a", 0.5}, {2, "g", "b", 0.5}}, 0);
  stays.Look({{1, "g", "a", 0.5}, {2, "g", "b", 0.5}}, 1);
  stays.Look({{3, "g", "c", 0.5}, {2, "g", "b", 0.5}}, 2);
  ASSERT_EQ(stays.all().size(), 3u);
  EXPECT_EQ(stays.all()[0].to, 1) << "the last look that saw it";
  EXPECT_EQ(stays.all()[1].to, 2);
  EXPECT_EQ(stays.all()[2].low, 0);
  EXPECT_EQ(stays.all()[2].from, 2);
}

TEST(SliceStays, AGapThatIsTooSmallIsPassedOver) {
  SliceStays stays;
  stays.Look({{1, "g", "a", 0.2}, {2, "g", "b", 0.3}}, 0);
  stays.Look({{2, "g", "b", 0.3}}, 1);
  stays.Look({{2, "g", "b", 0.3}, {3, "g", "c", 0.4}, {4, "g", "d", 0.1}}, 2);
  EXPECT_EQ(stays.all()[2].low, 0.5);
  EXPECT_EQ(stays.all()[3].low, 0);
}

}  // namespace
}  // namespace spillway::lab
