// SPDX-License-Identifier: Apache-2.0
#include "dispatch/native/flow_owners.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace spillway::dispatch {
namespace {

class Owners : public testing::Test {
 protected:
  static Event Make(uint32_t flow, uint64_t user) {
    Event event;
    event.flow = flow;
    event.user = user;
    return event;
  }
  bool Claim(uint32_t worker, uint64_t sequence, uint32_t flow) {
    return owners_.Claim(worker, sequence, owners_.BucketOf(flow));
  }
  std::vector<uint64_t> TakeWaiting(uint32_t owner, uint32_t worker, uint64_t sequence, size_t most = 16) {
    std::vector<Event> events(most);
    events.resize(owners_.TakeWaiting(owner, worker, sequence, events.data(), most, flows_taken_));
    std::vector<uint64_t> users;
    for (const Event& event : events) users.push_back(event.user);
    return users;
  }
  CompletedTable completed_;
  FlowOwners owners_{completed_, 64, 0};
  uint64_t flows_taken_ = 0;
};

TEST_F(Owners, ABucketIsFreeWhenItsOwnerHasCompletedItsLastNumber) {
  EXPECT_TRUE(Claim(1, 5, 7));
  EXPECT_FALSE(Claim(2, 1, 7));
  completed_[1].count = 4;
  EXPECT_FALSE(Claim(2, 1, 7));
  completed_[1].count = 5;
  EXPECT_TRUE(Claim(2, 1, 7));
  EXPECT_FALSE(Claim(1, 6, 7));
}

TEST_F(Owners, NothingPassesWhatIsSetAside) {
  ASSERT_TRUE(Claim(1, 1, 7));
  EXPECT_EQ(owners_.SetAside(Make(7, 70)), 1u);
  completed_[1].count = 1;
  EXPECT_FALSE(Claim(2, 1, 7)) << "free, but 70 comes first";
  EXPECT_FALSE(Claim(1, 2, 7)) << "for its owner, too";
  EXPECT_EQ(TakeWaiting(1, 2, 0), std::vector<uint64_t>{70});
  EXPECT_EQ(flows_taken_, 1u);
  EXPECT_EQ(owners_.waiting(), 0u);
  EXPECT_TRUE(Claim(2, 2, 7));
}

TEST_F(Owners, AFlowIsTakenWholeThoughTheBurstIsFull) {
  ASSERT_TRUE(Claim(1, 1, 7));
  for (uint64_t i = 0; i < 3; i++) owners_.SetAside(Make(7, i));
  completed_[1].count = 1;
  EXPECT_EQ(TakeWaiting(1, 2, 0, 1), std::vector<uint64_t>{0});
  EXPECT_TRUE(TakeWaiting(1, 3, 0).empty());
  EXPECT_TRUE(TakeWaiting(2, 3, 0).empty()) << "worker 2 has one of them";
  EXPECT_EQ(TakeWaiting(2, 2, 1), (std::vector<uint64_t>{1, 2}));
}

TEST_F(Owners, WhatIsGivenBackComesBeforeWhatWasSetAside) {
  ASSERT_TRUE(Claim(1, 1, 7));
  ASSERT_TRUE(Claim(1, 2, 7));
  owners_.SetAside(Make(7, 3));
  owners_.GiveBack(Make(7, 2));
  owners_.GiveBack(Make(7, 1));
  owners_.Abandon(1);
  EXPECT_EQ(TakeWaiting(0, 2, 0), (std::vector<uint64_t>{1, 2, 3}));
}

TEST_F(Owners, OfSeveralBucketsEachKeepsItsPlaceInLine) {
  ASSERT_TRUE(Claim(1, 1, 7));
  ASSERT_TRUE(Claim(1, 2, 8));
  ASSERT_NE(owners_.BucketOf(7), owners_.BucketOf(8));
  owners_.SetAside(Make(7, 70));
  owners_.SetAside(Make(8, 80));
  owners_.SetAside(Make(7, 71));
  EXPECT_EQ(owners_.WaitingMask(), 1u);
  EXPECT_EQ(TakeWaiting(1, 1, 2), (std::vector<uint64_t>{70, 71, 80}));
  EXPECT_EQ(owners_.WaitingMask(), 0u);
}

// Who chooses flows that wait for each other in one domain has chosen nothing for the next.
TEST(FlowHashes, FlowsThatShareABucketUnderOneSeedDoNotUnderAnother) {
  const CompletedTable completed;
  const FlowOwners one(completed, 1, 1), other(completed, 1, 2);
  std::set<uint32_t> elsewhere;
  int sharing = 0;
  for (uint32_t flow = 0; sharing < 64; flow++) {
    if (one.BucketOf(flow) != one.BucketOf(0)) continue;
    sharing++;
    elsewhere.insert(other.BucketOf(flow));
  }
  EXPECT_GT(elsewhere.size(), 48u);
}

TEST(FlowHashes, FlowsNumberedInTurnAreSpreadEvenlyOverShardsAndEachShardsBuckets) {
  constexpr uint32_t kFlows = 1 << 14, kShards = 8;
  const CompletedTable completed;
  for (uint32_t seed : {0u, 1u, 0xdeadbeefu, ~0u}) {
    const FlowOwners owners(completed, 1, seed);
    std::array<uint32_t, kShards> flows{};
    std::array<std::set<uint32_t>, kShards> buckets;
    for (uint32_t flow = 0; flow < kFlows; flow++) {
      const uint32_t shard = FlowHash(flow, seed) >> 29;
      flows[shard]++;
      buckets[shard].insert(owners.BucketOf(flow));
    }
    for (uint32_t shard = 0; shard < kShards; shard++) {
      EXPECT_NEAR(flows[shard], kFlows / kShards, kFlows / kShards / 5.0) << "seed " << seed;
      EXPECT_GT(buckets[shard].size(), 1100u) << "of 2,048; thrown at random, 2,048 flows meet 1,295";
    }
  }
}

}  // namespace
}  // namespace spillway::dispatch
