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
  sweeper.Sweep(table.data(), 4, 4, 1000, kLimits, [](uint16_t unit) { return unit != 2; });
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
  FlowSweeper sweeper;
  auto alive = [](uint16_t) { return true; };
  for (int part = 0; part < 3; part++) {
    sweeper.Sweep(table.data(), 10, 3, 1000, kLimits, alive);
    EXPECT_EQ(sweeper.rounds(), 0u);
    EXPECT_EQ(sweeper.used(), 0u) << "unknown until a round is done";
  }
  sweeper.Sweep(table.data(), 10, 3, 1000, kLimits, alive);
  EXPECT_EQ(sweeper.rounds(), 1u);
  EXPECT_EQ(sweeper.used(), 10u);
  for (int part = 0; part < 4; part++) sweeper.Sweep(table.data(), 10, 3, 1400, kLimits, alive);
  EXPECT_EQ(sweeper.used(), 0u);
  EXPECT_EQ(table[9].entry[0], 0u);
}

}  // namespace
}  // namespace spillway::switching
