// SPDX-License-Identifier: Apache-2.0
#include "lab/balancer/flow_memory.h"

#include <gtest/gtest.h>

namespace spillway::balancer {
namespace {

constexpr uint32_t kIdle = 56;  // ticks; shorter than the probation of a new flow
constexpr uint64_t kFlow = 0x123456789abcdef0, kOther = 0x0fedcba987654321;

FlowMemory Memory(uint32_t buckets = 64) { return {buckets, spw_make_flow_limits(3600, kIdle, 10), kIdle}; }

TEST(FlowMemory, KnowsAFlowFromItsInsertionOn) {
  FlowMemory memory = Memory();
  EXPECT_EQ(memory.Find(kFlow, 100), std::nullopt);
  memory.Insert(kFlow, 5, 100);
  EXPECT_EQ(memory.Find(kFlow, 100), 5);
  EXPECT_EQ(memory.Find(kOther, 100), std::nullopt);
}

TEST(FlowMemory, APacketKeepsItsFlowAliveAndSilenceEndsIt) {
  FlowMemory memory = Memory();
  memory.Insert(kFlow, 5, 100);
  EXPECT_EQ(memory.Find(kFlow, 100 + kIdle), 5);
  EXPECT_EQ(memory.Find(kFlow, 100 + 2 * kIdle), 5) << "the last packet was no longer ago than that";
  EXPECT_EQ(memory.Find(kFlow, 101 + 3 * kIdle), std::nullopt);
  memory.Insert(kFlow, 3, 101 + 3 * kIdle);
  EXPECT_EQ(memory.Find(kFlow, 101 + 3 * kIdle), 3);
}

TEST(FlowMemory, FlowsThatOverflowTheirBucketAreFoundInTheOther) {
  FlowMemory memory = Memory(64);
  // The same primary bucket, 7, for all.
  const auto flow = [](uint64_t i) { return i * 0x9e3779b1 << 33 | 7; };
  for (uint64_t i = 1; i <= 12; i++) EXPECT_TRUE(memory.Insert(flow(i), static_cast<uint16_t>(i), 100));
  for (uint64_t i = 1; i <= 12; i++) EXPECT_EQ(memory.Find(flow(i), 100), i);
}

TEST(FlowMemory, SaysWhenThereIsNoRoomAndKeepsWhatItHas) {
  FlowMemory memory = Memory(1);
  for (uint64_t i = 1; i <= 8; i++) EXPECT_TRUE(memory.Insert(i << 33, 1, 100));
  EXPECT_FALSE(memory.Insert(9ULL << 33, 2, 100));
  EXPECT_EQ(memory.Find(9ULL << 33, 100), std::nullopt);
  for (uint64_t i = 1; i <= 8; i++) EXPECT_EQ(memory.Find(i << 33, 100), 1);
}

}  // namespace
}  // namespace spillway::balancer
