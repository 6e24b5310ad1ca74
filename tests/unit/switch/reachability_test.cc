// SPDX-License-Identifier: Apache-2.0
#include "switch/reachability.h"

#include <gtest/gtest.h>

namespace spillway::switching {
namespace {

using namespace std::chrono_literals;

constexpr Reachability::Time kStart{1000s};

Reachability Known() {
  Reachability unit(kStart);
  unit.Look(Hop::kKnown, kStart);
  return unit;
}

TEST(Reachability, AUnitNotYetResolvedGetsNothingAndKeepsItsPlaceForAWhile) {
  Reachability unit(kStart);
  unit.Look(Hop::kUnknown, kStart + 10ms);
  EXPECT_FALSE(unit.forwards());
  EXPECT_FALSE(unit.takes_new_flows());
  EXPECT_TRUE(unit.in_ring());
  unit.Look(Hop::kUnknown, kStart + Reachability::kSettle);
  EXPECT_FALSE(unit.in_ring());
  EXPECT_TRUE(unit.wants_resolving());
}

TEST(Reachability, ALostNeighbourIsGivenTimeAndItsFlowsGoOn) {
  Reachability unit = Known();
  unit.Look(Hop::kUnknown, kStart + 10s);
  EXPECT_TRUE(unit.takes_new_flows());
  EXPECT_TRUE(unit.wants_resolving());
  unit.Look(Hop::kUnknown, kStart + 10s + Reachability::kGrace);
  EXPECT_FALSE(unit.takes_new_flows());
  EXPECT_TRUE(unit.forwards());
  EXPECT_TRUE(unit.in_ring());
  unit.Look(Hop::kUnknown, kStart + 10s + Reachability::kGrace + Reachability::kSettle);
  EXPECT_TRUE(unit.forwards());
  EXPECT_FALSE(unit.in_ring());
}

TEST(Reachability, ANeighbourThatTheKernelDroppedIsAskedForAndNotLost) {
  Reachability unit = Known();
  for (int i = 1; i < 20; i++) {
    unit.Look(Hop::kForgotten, kStart + i * 1s);
    EXPECT_TRUE(unit.takes_new_flows());
    EXPECT_TRUE(unit.in_ring());
    EXPECT_TRUE(unit.wants_resolving());
  }
  unit.Look(Hop::kUnknown, kStart + 20s);  // it was asked for, and nobody has answered
  EXPECT_TRUE(unit.takes_new_flows());
  unit.Look(Hop::kForgotten, kStart + 20s + Reachability::kGrace);  // failed entries are dropped as well
  EXPECT_FALSE(unit.takes_new_flows());
  EXPECT_TRUE(unit.forwards());
}

TEST(Reachability, OneThatWasNeverKnownIsNotForgotten) {
  Reachability unit(kStart);
  unit.Look(Hop::kForgotten, kStart + 10ms);
  EXPECT_FALSE(unit.forwards());
  EXPECT_FALSE(unit.takes_new_flows());
}

TEST(Reachability, ANeighbourThatComesBackInTimeWasNeverGone) {
  Reachability unit = Known();
  for (int i = 0; i < 20; i++) {
    unit.Look(Hop::kUnknown, kStart + i * 1s);
    EXPECT_TRUE(unit.takes_new_flows());
    unit.Look(Hop::kKnown, kStart + i * 1s + Reachability::kGrace / 2);
    EXPECT_TRUE(unit.takes_new_flows());
    EXPECT_TRUE(unit.in_ring());
  }
}

TEST(Reachability, ALinkThatIsDownTakesTheUnitOutAtOnce) {
  Reachability unit = Known();
  unit.Look(Hop::kNone, kStart + 1s);
  EXPECT_FALSE(unit.forwards());
  EXPECT_FALSE(unit.takes_new_flows());
  // Up again, but its MAC was forgotten with the link.
  unit.Look(Hop::kUnknown, kStart + 1100ms);
  EXPECT_FALSE(unit.forwards());
  unit.Look(Hop::kKnown, kStart + 1200ms);
  EXPECT_TRUE(unit.forwards());
  EXPECT_TRUE(unit.takes_new_flows());
}

TEST(Reachability, TheRingFollowsWhatLasts) {
  Reachability unit = Known();
  unit.Look(Hop::kNone, kStart + 1s);
  unit.Look(Hop::kKnown, kStart + 2s);
  unit.Look(Hop::kNone, kStart + 3s);
  unit.Look(Hop::kNone, kStart + 3s + Reachability::kSettle - 1ms);
  EXPECT_TRUE(unit.in_ring()) << "it was up in between";
  unit.Look(Hop::kNone, kStart + 3s + Reachability::kSettle);
  EXPECT_FALSE(unit.in_ring());
  unit.Look(Hop::kKnown, kStart + 20s);
  EXPECT_TRUE(unit.takes_new_flows());
  EXPECT_FALSE(unit.in_ring());
  unit.Look(Hop::kKnown, kStart + 20s + Reachability::kSettle);
  EXPECT_TRUE(unit.in_ring());
}

}  // namespace
}  // namespace spillway::switching
