// SPDX-License-Identifier: Apache-2.0
// The sweep frees what has expired or lost its unit, keeps the rest and the overflow mark, and counts.
#include "switch/flow_sweeper.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway::switching {
namespace {

const spw_flow_limits kLimits = spw_make_flow_limits(300, 120, 40);

TEST(FlowSweeper, FreesTheExpiredAndTheDeadAndKeepsTheRest) {
  std::vector<spw_bucket> table(4);
  auto entry = [](uint16_t unit, spw_flow_state state, uint32_t idle) {
    return spw_flow_entry(77, unit, state, 1000 - idle);
  };
  table[0].entry[0] = entry(1, SPW_FLOW_OPEN, 301) | SPW_FLOW_OVERFLOW;
  table[0].entry[1] = entry(1, SPW_FLOW_OPEN, 300);
  table[1].entry[2] = entry(1, SPW_FLOW_DATAGRAM, 121);
  table[1].entry[3] = entry(1, SPW_FLOW_CLOSING, 40);
  table[2].entry[4] = entry(2, SPW_FLOW_OPEN, 0);
  table[3].entry[7] = entry(3, SPW_FLOW_OPEN, 5);
  FlowSweeper sweeper;
  std::vector<spw_filter_word> filter(64);
  sweeper.Sweep({table.data(), 4, filter.data(), 64}, 4, 1000, kLimits,
                [](uint16_t unit) { return unit != 2; });
  EXPECT_EQ(table[0].entry[0], SPW_FLOW_OVERFLOW) << "the mark outlives the entry";
  EXPECT_NE(table[0].entry[1], 0u);
  EXPECT_EQ(table[1].entry[2], 0u);
  EXPECT_NE(table[1].entry[3], 0u);
  EXPECT_EQ(table[2].entry[4], 0u);
  EXPECT_NE(table[3].entry[7], 0u);
  EXPECT_EQ(sweeper.used(), 3u);
  EXPECT_EQ(sweeper.rounds(), 1u);
}

TEST(FlowSweeper, PartsMakeAWholeRound) {
  std::vector<spw_bucket> table(10);
  for (auto& bucket : table) bucket.entry[0] = spw_flow_entry(1, 1, SPW_FLOW_OPEN, 1000);
  std::vector<spw_filter_word> filter(64);
  const SweptTables tables{table.data(), 10, filter.data(), 64};
  FlowSweeper sweeper;
  auto alive = [](uint16_t) { return true; };
  for (int part = 0; part < 3; part++) {
    sweeper.Sweep(tables, 3, 1000, kLimits, alive);
    EXPECT_EQ(sweeper.rounds(), 0u);
    EXPECT_EQ(sweeper.used(), 0u) << "unknown until a round is done";
  }
  sweeper.Sweep(tables, 3, 1000, kLimits, alive);
  EXPECT_EQ(sweeper.rounds(), 1u);
  EXPECT_EQ(sweeper.used(), 10u);
  for (int part = 0; part < 4; part++) sweeper.Sweep(tables, 3, 1400, kLimits, alive);
  EXPECT_EQ(sweeper.used(), 0u);
  EXPECT_EQ(table[9].entry[0], 0u);
}

TEST(FlowSweeper, ClosingFlowsKeepTheirEntriesWhileTheTableIsNearlyEmpty) {
  for (size_t open : {size_t{0}, size_t{8}}) {
    std::vector<spw_bucket> table(64);
    for (size_t i = 0; i < open; i++) table[i].entry[3] = spw_flow_entry(9, 1, SPW_FLOW_OPEN, 1000);
    table[20].entry[0] = spw_flow_entry(7, 1, SPW_FLOW_CLOSING, 1000 - 41);
    table[21].entry[0] = spw_flow_entry(7, 1, SPW_FLOW_CLOSING, 1000 - 301);
    std::vector<spw_filter_word> filter(64);
    FlowSweeper sweeper;
    for (int round = 0; round < 2; round++)
      sweeper.Sweep({table.data(), 64, filter.data(), 64}, 64, 1000, kLimits, [](uint16_t) { return true; });
    EXPECT_EQ(table[20].entry[0] != 0, open == 0) << open;
    EXPECT_EQ(table[21].entry[0], 0u) << "as long as an open one";
  }
}

class FilterRenewal : public testing::Test {
 protected:
  FilterRenewal() { table_[1].entry[0] = spw_flow_entry(kTag, 1, SPW_FLOW_OPEN, 1000); }
  void Round() {
    sweeper_.Sweep({table_.data(), 4, filter_.data(), 64}, 4, 1000, kLimits, [](uint16_t) { return true; });
  }
  bool MayHold(uint32_t tag) { return spw_filter_may_hold(&filter_[spw_filter_index(tag, 63)], tag) != 0; }
  void Add(uint32_t tag) { spw_filter_add(&filter_[spw_filter_index(tag, 63)], tag); }

  static constexpr uint32_t kTag = 0x123, kEnded = 0x777;
  std::vector<spw_bucket> table_ = std::vector<spw_bucket>(4);
  std::vector<spw_filter_word> filter_ = std::vector<spw_filter_word>(64);
  FlowSweeper sweeper_{0};  // renews in each round
};

TEST_F(FilterRenewal, WhatHasAnEntryStaysAndWhatEndedGoesWithinThreeRounds) {
  Add(kTag), Add(kEnded);
  for (int round = 0; round < 3; round++) {
    Round();
    EXPECT_TRUE(MayHold(kTag)) << "round " << round;
  }
  EXPECT_FALSE(MayHold(kEnded));
}

// After a restart nothing is known of the sides: the one that holds all must not be cleared.
TEST_F(FilterRenewal, TheFirstRoundClearsNothing) {
  filter_[spw_filter_index(kTag, 63)].side[0] = spw_filter_bits(kTag);
  sweeper_.Sweep({table_.data(), 4, filter_.data(), 64}, 1, 1000, kLimits, [](uint16_t) { return true; });
  EXPECT_TRUE(MayHold(kTag)) << "bucket 1 has not been swept yet";
  Round();
  filter_[spw_filter_index(kTag, 63)].side[1] = 0;
  EXPECT_TRUE(MayHold(kTag)) << "both sides hold it";
}

// A handshake off the ring is in the filter before its entry is in the table.
TEST(FlowSweeper, WhatWasAddedStaysForTheLengthOfAHandshake) {
  std::vector<spw_bucket> table(4);
  for (uint32_t begun = 1000; begun < 1064; begun += 9) {
    std::vector<spw_filter_word> filter(64);
    FlowSweeper sweeper;
    for (uint32_t tick = 1000; tick < begun + 64; tick++) {
      if (tick == begun) spw_filter_add(&filter[spw_filter_index(0x777, 63)], 0x777);
      sweeper.Sweep({table.data(), 4, filter.data(), 64}, 4, tick, kLimits, [](uint16_t) { return true; });
      ASSERT_TRUE(tick < begun || spw_filter_may_hold(&filter[spw_filter_index(0x777, 63)], 0x777)) << tick;
    }
  }
}

TEST_F(FilterRenewal, DatagramsAreNotInIt) {
  table_[2].entry[3] = spw_flow_entry(kEnded, 1, SPW_FLOW_DATAGRAM, 1000);
  Round();
  EXPECT_FALSE(MayHold(kEnded));
}

}  // namespace
}  // namespace spillway::switching
