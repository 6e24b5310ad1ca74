// SPDX-License-Identifier: Apache-2.0
// The closed forms, by hand.
#include <gtest/gtest.h>

#include "planner/execution_time.h"
#include "planner/memory.h"
#include "planner/price_ratio.h"
#include "planner/training_traffic.h"

namespace spillway::planner {
namespace {

TEST(PriceRatio, EquationOne) {
  EXPECT_DOUBLE_EQ(CostRatio({.server_cost = 7}, 2), 3.5);
  // (7 + 21) / (2 + 21)
  EXPECT_DOUBLE_EQ(CostRatio({.server_cost = 7, .device_cost = 21}, 2), 28.0 / 23);
}

TEST(PriceRatio, EquationTwoDividesBySlowdown) {
  EXPECT_DOUBLE_EQ(EnergyRatio({.server_power = 11}, 2, 1.1), 5);
  EXPECT_DOUBLE_EQ(EnergyRatio({.server_power = 10, .device_power = 30}, 2, 0.5), 40 / (0.5 * 32));
}

TEST(PriceRatio, FabricIsPaidPerSmartNic) {
  // (7 + 0.7 + 0) / (2 (1 + 0.7))
  EXPECT_NEAR(CostRatioWithFabric({.server_cost = 7, .fabric_cost = 0.7}, 2), 7.7 / 3.4, 1e-12);
}

TEST(PriceRatio, ARightSizedFabricGrowsWithTheApplicationsSpeed) {
  // Twice as slow: half the fabric. 7.7 / (2 + 0.35)
  EXPECT_NEAR(CostRatioWithRightSizedFabric({.server_cost = 7, .fabric_cost = 0.7}, 2, 2), 7.7 / 2.35, 1e-12);
  EXPECT_DOUBLE_EQ(FabricMayBeSlowerBy(2), 0.5);
  EXPECT_DOUBLE_EQ(FabricMayBeSlowerBy(0.5), -1);
  EXPECT_DOUBLE_EQ(RightSizedOversubscription(2, 1.2), 2.4);
}

TEST(PriceRatio, DevicesAtAShareOfTheWhole) { EXPECT_DOUBLE_EQ(AttachedAt(0.75, 7), 21); }

TEST(ExecutionTime, AcceleratorsComputeThenWait) {
  TimeShares shares;
  shares.accelerator = 0.6;
  shares.stall = 0.4;
  // Half the accelerators, twice the network: 1.2 + 0.2.
  EXPECT_DOUBLE_EQ(AcceleratorTime(shares, false, 2, 0.5, 1), 1.4);
  // Traffic that grows as the network does leaves the stall as it was.
  EXPECT_DOUBLE_EQ(AcceleratorTime(shares, false, 1, 0.5, 2), 1);
}

TEST(ExecutionTime, OverlappedFetchingCountsOnlyWhereItIsTheLonger) {
  TimeShares shares;
  shares.accelerator = 0.25;
  shares.stall = 0.75;
  EXPECT_DOUBLE_EQ(AcceleratorTime(shares, true, 1, 1, 1), 1);
  EXPECT_DOUBLE_EQ(AcceleratorTime(shares, true, 1, 0.5, 1), 0.5) << "twice the network";
  EXPECT_DOUBLE_EQ(AcceleratorTime(shares, true, 1, 0.1, 1), 0.25) << "now computing is the longer";
}

TEST(ExecutionTime, CpuAndNetworkScaleApart) {
  // Lovelock 5.2: 4.7 x 0.39 + 0.61 = 2.443.
  EXPECT_NEAR(SlowdownAt(0.39, 2, 4.7), 2.443 / 2, 1e-12);
  EXPECT_NEAR(CpuShareBehind(2.443 / 3, 3, 4.7), 0.39, 1e-12);
}

TEST(TrainingTraffic, AllReduceMovesTwoGradientsPerFurtherNode) {
  EXPECT_DOUBLE_EQ(AllReduceGb(3, 1), 0);
  EXPECT_DOUBLE_EQ(AllReduceGb(3, 8), 42);
  EXPECT_DOUBLE_EQ(AllReduceGrowth(8, 16), 15.0 / 7);
  EXPECT_NEAR(AllReduceGrowth(100'000, 300'000), 3, 1e-4) << "phi, for many nodes";
}

TEST(TrainingTraffic, TheNarrowerOfNetworkAndAcceleratorsSetsThePace) {
  const MiniBatches starved{200, 50, 8, 100}, fed{200, 50, 8, 1000};
  EXPECT_DOUBLE_EQ(starved.NetworkAllowsPerS(), 62.5);
  EXPECT_DOUBLE_EQ(starved.PerS(), 62.5);
  EXPECT_DOUBLE_EQ(starved.Utilisation(), 62.5 / 400);
  EXPECT_DOUBLE_EQ(starved.WantedGbps(), 640);
  EXPECT_DOUBLE_EQ(fed.PerS(), 400);
  EXPECT_DOUBLE_EQ(fed.Utilisation(), 1);
}

TEST(Memory, FixedPartsRepeatOnEveryNodeAndDataDoNot) {
  const NodeMemory memory{2, 4, 120};
  EXPECT_DOUBLE_EQ(WorkerMemoryGb(memory, 1), 126);
  EXPECT_DOUBLE_EQ(WorkerMemoryGb(memory, 12), 16);
}

TEST(Memory, ACheckpointTakesCopiesOfTheModelUnlessItStreams) {
  Checkpoint checkpoint{4.5, 2, 1, false};
  EXPECT_DOUBLE_EQ(CheckpointPeakGb(checkpoint, 4), 36);
  checkpoint.streaming = true;
  EXPECT_DOUBLE_EQ(CheckpointPeakGb(checkpoint, 4), 2) << "a chunk is filled, another is written";
  checkpoint.model_gb_per_accelerator = 0.1;
  EXPECT_DOUBLE_EQ(CheckpointPeakGb(checkpoint, 1), 0.2) << "a small model is one chunk";
}

TEST(Memory, AcceleratorsThatFit) {
  const Checkpoint whole{9, 2, 1, false}, streamed{9, 2, 1, true};
  // 48 - 2 - 4 = 42 GB; 18 each.
  EXPECT_EQ(AcceleratorsThatFit({2, 4, 0}, whole, 1, 48, 8), 2);
  EXPECT_EQ(AcceleratorsThatFit({2, 4, 0}, streamed, 1, 48, 8), 8);
  EXPECT_EQ(AcceleratorsThatFit({2, 4, 0}, whole, 1, 20, 8), 0);
}

}  // namespace
}  // namespace spillway::planner
