// SPDX-License-Identifier: Apache-2.0
// Where jobs go, and which are moved.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/consolidation.h"
#include "scheduler/placer.h"

namespace spillway::scheduler {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

Job Part(int milli, int cpu = 0) {
  Job job;
  job.milli = milli;
  job.cpu_milli = cpu;
  return job;
}

std::vector<Node> Nodes(int count, int gpus) {
  std::vector<Node> nodes(static_cast<size_t>(count));
  for (int n = 0; n < count; ++n) {
    nodes[static_cast<size_t>(n)].name = "n" + std::to_string(n);
    nodes[static_cast<size_t>(n)].gpus = gpus;
  }
  return nodes;
}

const std::vector<GpuModel> kModels = {{"slow", 1, false, 0}, {"fast", 4, false, 0}};

// FGD's definition, kind by kind, GPU by GPU.
double SlowFragmentation(const std::vector<Job>& kinds, int model, int cpu,
                         const std::vector<int16_t>& free) {
  double lost = 0;
  for (const Job& kind : kinds) {
    int total = 0, idle = 0, small = 0;
    for (const int one : free) {
      total += one;
      idle += one == kWholeGpu ? 1 : 0;
      small += one < kind.milli ? one : 0;
    }
    const bool hopeless =
        kind.gpus == 0 || kind.cpu_milli > cpu || !kind.Accepts(model) || (kind.gpus > 1 && idle < kind.gpus);
    lost += hopeless ? total : small;
  }
  return lost / static_cast<double>(kinds.size());
}

TEST(JobMix, AgreesWithTheDefinition) {
  std::vector<Job> kinds = {Part(470, 4000), Part(810, 3000), Part(1000, 8000), Part(320, 12000), {}};
  kinds[4].gpus = 0;
  kinds[2].models = 2;
  Job pair = Part(1000, 6000);
  pair.gpus = 2;
  kinds.push_back(pair);
  const JobMix mix(kinds, 2);
  ASSERT_EQ(mix.kinds(), kinds.size());
  const std::vector<std::vector<int16_t>> states = {
      {1000, 1000, 1000}, {1000, 190, 530}, {320, 470, 810}, {0, 0, 319}, {1000, 1000, 469}};
  for (const auto& free : states)
    for (const int cpu : {0, 3000, 3999, 6000, 9000, 50000})
      for (const int model : {0, 1})
        EXPECT_NEAR(mix.Fragmentation(model, cpu, free.data(), 3), SlowFragmentation(kinds, model, cpu, free),
                    1e-9)
            << "CPU " << cpu << ", model " << model;
}

TEST(JobMix, NothingIsKnownMeansWholeGpus) {
  const JobMix mix({}, 1);
  const int16_t free[] = {1000, 600};
  EXPECT_DOUBLE_EQ(mix.Fragmentation(0, 0, free, 2), 600);
}

TEST(Placer, FillsTheGpuThatIsOfNoOtherUse) {
  const std::vector<Job> usual = {Part(1000), Part(470)};
  Cluster cluster(Nodes(3, 2), kModels);
  const JobMix mix(usual, 2);
  Placer placer(cluster, mix);
  cluster.Place(0, Part(500), {1, 1, -1});
  EXPECT_EQ(placer.Decide(Part(470)), (Spot{1, 1, -1}));
}

TEST(Placer, EveryPolicyKeepsTheRules) {
  const JobMix mix({Part(470)}, 2);
  for (const char* name : {"spillway", "fgd", "best-fit", "first-fit", "random"}) {
    Cluster cluster(Nodes(2, 1), kModels);
    Placer placer(cluster, mix, {*PolicyByName(name), Objective::kFragmentation, 7});
    EXPECT_STREQ(ToString(*PolicyByName(name)), name);
    for (JobId id = 0; id < 4; ++id) {
      const auto spot = placer.Decide(Part(470));
      ASSERT_TRUE(spot.has_value()) << name;
      cluster.Place(id, Part(470), *spot);
    }
    EXPECT_FALSE(placer.Decide(Part(470)).has_value()) << name;
    EXPECT_EQ(cluster.Check(), "") << name;
  }
}

TEST(Placer, TheObjectiveComesFirst) {
  std::vector<Node> nodes = Nodes(2, 2);
  nodes[1].model = 1;
  const JobMix mix({Part(1000)}, 2);
  Cluster cluster(nodes, kModels);
  cluster.Place(0, Part(900), {0, 0, -1});
  const auto choose = [&](Objective objective) {
    return Placer(cluster, mix, {Policy::kSpillway, objective, 1}).Decide(Part(100));
  };
  EXPECT_EQ(choose(Objective::kEarliest)->node, 1) << "the fast model";
  EXPECT_EQ(choose(Objective::kFewestGpus), (Spot{0, 0, -1})) << "the GPU that is on";
}

TEST(Placer, ScoresThatWereKeptAreThoseOfAFreshPlacer) {
  const JobMix mix({Part(470, 1000), Part(810, 2000), Part(1000, 3000)}, 2);
  std::vector<Node> nodes = Nodes(70, 4);  // more than two blocks
  for (Node& node : nodes) node.cpu_milli = 9000;
  Cluster cluster(nodes, kModels);
  Placer kept(cluster, mix);
  JobId next = 0;
  for (int round = 0; round < 400; ++round) {
    const Job job = round % 3 == 0 ? Part(470, 1000) : round % 3 == 1 ? Part(810, 2000) : Part(1000, 3000);
    const auto spot = kept.Decide(job);
    Placer fresh(cluster, mix);
    ASSERT_EQ(spot, fresh.Decide(job)) << "decision " << round;
    if (!spot) break;
    cluster.Place(next++, job, *spot);
    if (round % 5 == 4) cluster.Remove(next - 3);
  }
}

TEST(Placer, SaysWhyNodesAreRefused) {
  std::vector<Node> nodes = Nodes(4, 1);
  nodes[0].cpu_milli = 100;
  nodes[1].memory_mib = 100;
  nodes[2].model = 1;
  Cluster cluster(nodes, kModels, {Isolation::kGpu, SliceRule::kCompute});
  Job there = Part(100);
  there.tenant = 5;
  cluster.Place(0, there, {3, 0, -1});
  const JobMix mix({}, 2);
  Placer placer(cluster, mix);
  Job job = Part(200, 1000);
  job.memory_mib = 1000;
  job.models = 1;
  Explanation why = placer.Explain(job);
  EXPECT_FALSE(why.chosen.has_value());
  EXPECT_EQ(why.refused.cpu, 1);
  EXPECT_EQ(why.refused.memory, 1);
  EXPECT_EQ(why.refused.model, 1);
  EXPECT_EQ(why.refused.tenant, 1);
  job.tenant = 5;
  why = placer.Explain(job);
  ASSERT_TRUE(why.chosen.has_value());
  EXPECT_EQ(why.fitting, 1);
  ASSERT_THAT(why.best, SizeIs(1));
  EXPECT_EQ(why.best[0].gpus_switched_on, 0);
}

class Consolidation : public ::testing::Test {
 protected:
  Cluster cluster_{Nodes(4, 1), kModels};
};

TEST_F(Consolidation, EmptiesAGpuWhoseJobsFitElsewhere) {
  cluster_.Place(0, Part(500), {0, 0, -1});
  cluster_.Place(1, Part(300), {1, 0, -1});
  Consolidator consolidator(cluster_, {});
  const auto moves = consolidator.Consolidate();
  ASSERT_THAT(moves, SizeIs(1));
  EXPECT_EQ(cluster_.gpus_on(), 1);
  EXPECT_EQ(consolidator.moves(), 1);
}

TEST_F(Consolidation, PushesASmallerJobAside) {
  cluster_.Place(0, Part(600), {0, 0, -1});
  cluster_.Place(1, Part(300), {0, 0, -1});  // to leave for 2
  cluster_.Place(2, Part(400), {1, 0, -1});
  cluster_.Place(3, Part(650), {2, 0, -1});  // with room for 1
  Consolidator consolidator(cluster_, {});
  EXPECT_THAT(consolidator.Consolidate(), SizeIs(2));
  EXPECT_EQ(cluster_.gpus_on(), 2);
  EXPECT_EQ(cluster_.Check(), "");
}

TEST_F(Consolidation, PushesAsideOneThatLosesNothing) {
  cluster_.Place(0, Part(400), {0, 0, -1});
  cluster_.Place(1, Part(290), {0, 0, -1});  // may go nowhere
  cluster_.Place(2, Part(290), {0, 0, -1});  // to leave for 3
  cluster_.Place(3, Part(305), {1, 0, -1});
  cluster_.Place(4, Part(705), {2, 0, -1});  // with room for 2
  Consolidator consolidator(cluster_, {});
  consolidator.PriceBy([](JobId job, int) { return job == 1 ? kImmovable : 0; });
  const auto moves = consolidator.Consolidate();
  ASSERT_THAT(moves, SizeIs(2));
  for (const Move& move : moves) EXPECT_NE(move.job, 1u);
  EXPECT_EQ(cluster_.gpus_on(), 2);
}

TEST_F(Consolidation, WhatIsLostOnTheOtherGpuIsPaidOnceAMove) {
  for (const double loss : {0.6, 0.8}) {  // and 0.3 for the move, for a GPU
    Cluster cluster(Nodes(2, 1), kModels);
    cluster.Place(0, Part(600), {0, 0, -1});
    cluster.Place(1, Part(300), {1, 0, -1});
    Consolidator consolidator(cluster, {});
    consolidator.PriceBy([&](JobId, int) { return loss; });
    EXPECT_THAT(consolidator.Consolidate(), SizeIs(loss < 0.7 ? 1 : 0));
  }
}

TEST_F(Consolidation, MovesNothingThatCostsMoreThanItSaves) {
  Job dear = Part(500);
  dear.move_cost = 10;
  cluster_.Place(0, dear, {0, 0, -1});
  cluster_.Place(1, dear, {1, 0, -1});
  EXPECT_THAT(Consolidator(cluster_, {}).Consolidate(), IsEmpty());
}

TEST_F(Consolidation, StopsAtItsBudget) {
  for (JobId id = 0; id < 4; ++id) cluster_.Place(id, Part(250), {static_cast<int>(id), 0, -1});
  MovePolicy policy;
  policy.budget = 2;
  Consolidator consolidator(cluster_, policy);
  EXPECT_THAT(consolidator.Consolidate(), SizeIs(2));
  EXPECT_EQ(cluster_.gpus_on(), 2);
  EXPECT_THAT(consolidator.Consolidate(), IsEmpty()) << "the budget is for life";
}

TEST_F(Consolidation, ANewJobMayMoveOthersRatherThanSwitchAGpuOn) {
  cluster_.Place(0, Part(600), {0, 0, -1});
  cluster_.Place(1, Part(300), {0, 0, -1});
  cluster_.Place(2, Part(650), {1, 0, -1});
  Consolidator consolidator(cluster_, {});
  std::vector<Move> moves;
  EXPECT_TRUE(consolidator.Arrive(3, Part(400), moves));
  EXPECT_EQ(cluster_.gpus_on(), 2);
  ASSERT_THAT(moves, SizeIs(1));
  EXPECT_EQ(moves[0].job, 1u);
  EXPECT_EQ(cluster_.SpotOf(3).node, 0);
}

TEST_F(Consolidation, ANewJobThatFitsNowhereChangesNothing) {
  for (JobId id = 0; id < 4; ++id) cluster_.Place(id, Part(900), {static_cast<int>(id), 0, -1});
  std::vector<Move> moves;
  EXPECT_FALSE(Consolidator(cluster_, {}).Arrive(4, Part(500), moves));
  EXPECT_THAT(moves, IsEmpty());
  EXPECT_FALSE(cluster_.Placed(4));
  EXPECT_EQ(cluster_.Check(), "");
}

}  // namespace
}  // namespace spillway::scheduler
