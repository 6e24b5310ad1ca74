// SPDX-License-Identifier: Apache-2.0
// The geometry of slices, and the cluster's books.
#include "scheduler/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::scheduler {
namespace {

using ::testing::Contains;
using ::testing::Not;

std::vector<std::string> Texts(const std::vector<ProfileCounts>& sets) {
  std::vector<std::string> texts;
  for (const ProfileCounts& one : sets) texts.push_back(ToText(one));
  return texts;
}

Job Part(int milli, int tenant = 0) {
  Job job;
  job.milli = milli;
  job.tenant = tenant;
  return job;
}

Cluster TwoGpus(Isolation isolation, bool mig = true) {
  Node node;
  node.name = "n";
  node.gpus = 2;
  return Cluster({node}, {{"GPU", 1, mig, 0}}, {isolation, SliceRule::kCompute});
}

TEST(SliceGeometry, CountsAreThoseOfMigWithoutTheDoubleMemoryProfile) {
  const Geometry geometry = Reachable(0, false);
  EXPECT_EQ(geometry.multisets.size(), 37u);
  EXPECT_EQ(geometry.maximal.size(), 12u);
  EXPECT_EQ(geometry.placements.size(), 19u);
  EXPECT_THAT(Texts(geometry.multisets), Not(Contains("3g + 3g + 1g")))
      << "no eighth of the memory is left for it";
  EXPECT_THAT(Texts(geometry.maximal), Contains("4g + 3g"));
  EXPECT_THAT(Texts(geometry.maximal), Contains("3g + 3g"));
}

TEST(SliceGeometry, DoubleMemoryAddsSets) {
  const Geometry geometry = Reachable(0, true);
  EXPECT_GT(geometry.multisets.size(), 37u);
  EXPECT_THAT(Texts(geometry.maximal), Contains("1g+me + 1g+me + 1g+me + 1g+me"));
}

TEST(SliceGeometry, WhatIsTakenIsNotReachableAgain) {
  const Geometry geometry = Reachable(MaskOf(Profile::k3g, 4), false);
  EXPECT_THAT(Texts(geometry.multisets), Contains("4g"));
  EXPECT_THAT(Texts(geometry.multisets), Not(Contains("7g")));
  EXPECT_THAT(Texts(geometry.maximal), Contains("2g + 2g"));
  EXPECT_TRUE(Reachable(0xff, true).multisets.empty());
}

TEST(SliceGeometry, SmallSlicesGoWhereNoLargerOneLoses) {
  EXPECT_EQ(BestStart(Profile::k1g, 0), 6) << "2g begins at 0, 2 or 4 only, 4g at 0";
  EXPECT_EQ(BestStart(Profile::k3g, 0), 4) << "4g begins at 0 only";
  EXPECT_EQ(BestStart(Profile::k4g, MaskOf(Profile::k1g, 0)), -1);
  EXPECT_EQ(BestStart(Profile::k1g, 0x7f), -1) << "no 1g at the eighth slice";
}

TEST(SliceGeometry, TheRuleSaysWhatCounts) {
  EXPECT_EQ(ProfileFor(500, SliceRule::kCompute), Profile::k4g);
  EXPECT_EQ(ProfileFor(500, SliceRule::kMemory), Profile::k3g);
  EXPECT_EQ(ProfileFor(501, SliceRule::kMemory), Profile::k7g);
  EXPECT_EQ(ProfileFor(142, SliceRule::kCompute), Profile::k1g);
  EXPECT_EQ(ProfileFor(143, SliceRule::kCompute), Profile::k2g) << "a seventh is a little less";
  EXPECT_EQ(ProfileFor(1000, SliceRule::kCompute), Profile::k7g);
}

TEST(Cluster, PartsShareAGpuUntilItIsFull) {
  Cluster cluster = TwoGpus(Isolation::kNone);
  cluster.Place(0, Part(810), {0, 0, -1});
  EXPECT_FALSE(cluster.FitsGpu(Part(191), 0, 0));
  EXPECT_TRUE(cluster.FitsGpu(Part(190), 0, 0));
  cluster.Place(1, Part(190), {0, 0, -1});
  EXPECT_EQ(cluster.gpus_on(), 1);
  cluster.Remove(0);
  EXPECT_EQ(cluster.gpus_on(), 1);
  cluster.Remove(1);
  EXPECT_EQ(cluster.gpus_on(), 0);
  EXPECT_EQ(cluster.allocated_milli(), 0);
  EXPECT_EQ(cluster.Check(), "");
}

TEST(Cluster, WholeGpusAreIdleOnes) {
  Cluster cluster = TwoGpus(Isolation::kNone);
  Job pair = Part(kWholeGpu);
  pair.gpus = 2;
  EXPECT_TRUE(cluster.FitsNode(pair, 0));
  cluster.Place(0, Part(50), {0, 1, -1});
  EXPECT_FALSE(cluster.FitsNode(pair, 0));
  EXPECT_TRUE(cluster.FitsNode(Part(kWholeGpu), 0));
  cluster.Place(1, Part(kWholeGpu), {0, 0, -1});
  EXPECT_FALSE(cluster.FitsGpu(Part(50), 0, 0));
  EXPECT_EQ(cluster.Check(), "");
}

TEST(Cluster, UnderFractionEveryJobHasSlicesOfItsOwn) {
  Cluster cluster = TwoGpus(Isolation::kFraction);
  cluster.Place(0, Part(400), {0, 0, -1});  // 3g
  cluster.Place(1, Part(400), {0, 0, -1});  // 3g
  EXPECT_NE(cluster.SpotOf(0).start, cluster.SpotOf(1).start);
  EXPECT_FALSE(cluster.FitsGpu(Part(100), 0, 0)) << "3g + 3g + 1g is impossible";
  EXPECT_EQ(cluster.Check(), "");
}

TEST(Cluster, UnderFractionAGpuWithoutMigHasOneSlice) {
  Cluster cluster = TwoGpus(Isolation::kFraction, false);
  cluster.Place(0, Part(100), {0, 0, -1});
  EXPECT_FALSE(cluster.FitsGpu(Part(100), 0, 0));
  EXPECT_TRUE(cluster.FitsGpu(Part(100), 0, 1));
  cluster.Remove(0);
  EXPECT_TRUE(cluster.FitsGpu(Part(100), 0, 0));
}

TEST(Cluster, UnderGpuTenantsDoNotMeetUntilTheLastJobIsGone) {
  Cluster cluster = TwoGpus(Isolation::kGpu);
  cluster.Place(0, Part(100, 1), {0, 0, -1});
  cluster.Place(1, Part(100, 1), {0, 0, -1});
  EXPECT_FALSE(cluster.FitsGpu(Part(100, 2), 0, 0));
  cluster.Remove(0);
  EXPECT_FALSE(cluster.FitsGpu(Part(100, 2), 0, 0));
  cluster.Remove(1);
  EXPECT_TRUE(cluster.FitsGpu(Part(100, 2), 0, 0));
}

}  // namespace
}  // namespace spillway::scheduler
