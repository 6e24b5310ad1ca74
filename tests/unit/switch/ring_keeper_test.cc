// SPDX-License-Identifier: Apache-2.0
// Moving and settling ring slots: an owner stays while it lives and is used, and goes at once when dead.
#include "switch/ring_keeper.h"

#include <gtest/gtest.h>

#include <set>

namespace spillway::switching {
namespace {

constexpr uint32_t kIdle = 100, kEntryIdle = 200;

class RingKeeperTest : public testing::Test {
 protected:
  RingTally Move(const std::vector<uint16_t>& next, uint32_t tick = 1000) {
    return MoveRing(slots_.data(), static_cast<uint32_t>(slots_.size()), next, tick, alive_);
  }
  RingTally Settle(uint32_t tick) {
    return SettleRing(slots_.data(), static_cast<uint32_t>(slots_.size()), moves_, tick,
                      {kIdle, kEntryIdle, displaced_tick_}, alive_);
  }
  void Fill(const std::vector<uint16_t>& next) {
    slots_.assign(next.size(), {9, 9, 9, 9});
    FillRing(slots_.data(), next);
  }

  std::vector<spw_ring_slot> slots_;
  RingMoves moves_;
  uint32_t displaced_tick_ = 0;
  std::set<uint16_t> dead_;
  IsAlive alive_ = [this](uint16_t unit) { return !dead_.contains(unit); };
};

TEST_F(RingKeeperTest, FirstContentHasNothingMoved) {
  Fill({1, 2, 3});
  for (uint16_t i = 0; i < 3; i++) {
    EXPECT_EQ(slots_[i].owner, i + 1);
    EXPECT_EQ(slots_[i].next, i + 1);
    EXPECT_EQ(slots_[i].entryless_tick | slots_[i].deviating_tick, 0);
  }
}

TEST_F(RingKeeperTest, TheOwnerStaysWhileItLives) {
  Fill({1, 2, 3});
  RingTally tally = Move({1, 5, 3});
  EXPECT_EQ(tally.changed, 1u);
  EXPECT_EQ(tally.moved, 1u);
  EXPECT_EQ(slots_[1].owner, 2);
  EXPECT_EQ(slots_[1].next, 5);
  EXPECT_EQ(slots_[1].entryless_tick, 1000) << "the idle time starts now";
  EXPECT_EQ(slots_[0].entryless_tick, 0);
}

TEST_F(RingKeeperTest, ADeadOwnerIsReplacedAtOnce) {
  Fill({1, 2});
  dead_ = {2};
  RingTally tally = Move({1, 5});
  EXPECT_EQ(slots_[1].owner, 5);
  EXPECT_EQ(tally.moved, 0u);
}

TEST_F(RingKeeperTest, MovingBackEndsTheMove) {
  Fill({1});
  Move({2});
  Move({1}, 1001);
  EXPECT_EQ(slots_[0].owner, 1);
  EXPECT_EQ(slots_[0].next, 1);
}

TEST_F(RingKeeperTest, MovingOnKeepsTheFirstOwnerAndItsTick) {
  Fill({1});
  Move({2}, 1000);
  slots_[0].entryless_tick = 1050;  // the data plane saw one of the old flows
  Move({3}, 1080);
  EXPECT_EQ(slots_[0].owner, 1);
  EXPECT_EQ(slots_[0].next, 3);
  EXPECT_EQ(slots_[0].entryless_tick, 1050);
}

TEST_F(RingKeeperTest, NoUnitUpLeavesTheRing) {
  Fill({1, 2});
  Move({});
  EXPECT_EQ(slots_[0].owner, 1);
  EXPECT_EQ(slots_[1].next, 2);
}

TEST_F(RingKeeperTest, AMovedSlotSettlesOnlyAfterTheIdleTimeWithoutEntrylessPackets) {
  Fill({1});
  Move({2}, 1000);
  EXPECT_EQ(Settle(1000 + kIdle).moved, 1u);
  EXPECT_EQ(slots_[0].owner, 1);
  slots_[0].entryless_tick = 1090;
  Settle(1090 + kIdle);
  EXPECT_EQ(slots_[0].owner, 1);
  RingTally tally = Settle(1090 + kIdle + 1);
  EXPECT_EQ(slots_[0].owner, 2);
  EXPECT_EQ(tally.changed, 1u);
  EXPECT_EQ(tally.moved, 0u);
}

TEST_F(RingKeeperTest, AMovedSlotWaitsForFlowsThatLostTheirEntries) {
  Fill({1});
  Move({2}, 1000);
  displaced_tick_ = 1050;
  Settle(1050 + kIdle);
  EXPECT_EQ(slots_[0].owner, 1);
  Settle(1050 + kIdle + 1);
  EXPECT_EQ(slots_[0].owner, 2);
  Move({3}, 2000);
  displaced_tick_ = 2000 + kIdle + 2;
  Settle(2000 + kIdle + 1);
  EXPECT_EQ(slots_[0].owner, 2) << "by a clock that is ahead";
}

TEST_F(RingKeeperTest, AMoveEndsAfterTwoIdleTimesWhateverComes) {
  Fill({1, 1});
  Move({2, 1}, 1000);
  for (uint32_t tick = 1000; tick <= 1000 + 2 * kIdle; tick++) {
    slots_[0].entryless_tick = spw_slot_tick(tick);
    if (tick == 1100) Move({2, 3}, tick);
    Settle(tick);
    ASSERT_EQ(slots_[0].owner, 1) << tick;
  }
  slots_[1].entryless_tick = slots_[0].entryless_tick;
  Settle(1000 + 2 * kIdle + 1);
  EXPECT_EQ(slots_[0].owner, 2);
  EXPECT_EQ(slots_[1].owner, 1) << "moved later";
  Move({5, 3}, 1300);
  slots_[0].entryless_tick = 1300;
  Settle(1300);
  EXPECT_EQ(slots_[0].owner, 2) << "a move of its own";
}

TEST_F(RingKeeperTest, AnOwnerThatDiesWhileMovedSettlesAtOnce) {
  Fill({1});
  Move({2}, 1000);
  dead_ = {1};
  Settle(1001);
  EXPECT_EQ(slots_[0].owner, 2);
}

// Ticks have 16 bits and never say 0; ages are right across the wrap, and another CPU's clock that is
// ahead by a few ticks is no age at all.
TEST_F(RingKeeperTest, AgesAreRightAcrossTheWrap) {
  for (uint32_t start : {65500u, 65535u, 65536u, 131071u, 0u}) {
    Fill({1});
    Move({2}, start);
    ASSERT_NE(slots_[0].entryless_tick, 0);
    Settle(start + kIdle - 1);
    ASSERT_EQ(slots_[0].owner, 1) << start;
    Settle(start + kIdle + 2);
    ASSERT_EQ(slots_[0].owner, 2) << start;
  }
  Fill({1});
  Move({2}, 500);
  slots_[0].entryless_tick = 505;
  Settle(500);
  EXPECT_EQ(slots_[0].owner, 1) << "from the near future";
}

TEST_F(RingKeeperTest, TheMarkOfDeviatingFlowsIsClearedOnceNoneCanLive) {
  Fill({1});
  slots_[0].deviating_tick = 1000;
  Settle(1000 + kEntryIdle);
  EXPECT_EQ(slots_[0].deviating_tick, 1000);
  Settle(1000 + kEntryIdle + 1);
  EXPECT_EQ(slots_[0].deviating_tick, 0);
}

}  // namespace
}  // namespace spillway::switching
