// SPDX-License-Identifier: Apache-2.0
// Jobs come, go and are moved at random: no slice is given twice, tenants stay apart, budgets hold, and the
// same events give the same placements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/consolidation.h"
#include "scheduler/placer.h"

namespace spillway::scheduler {
namespace {

constexpr int kSizes[] = {50, 110, 160, 230, 320, 370, 470, 550, 650, 810, 1000};

std::vector<Node> RandomNodes(std::mt19937& random, bool hosts) {
  std::vector<Node> nodes(3 + random() % 6);
  for (Node& node : nodes) {
    node.name = "n" + std::to_string(&node - nodes.data());
    node.gpus = static_cast<int>(1 + random() % 4);
    node.model = static_cast<int>(random() % 2);
    if (hosts) node.cpu_milli = 20'000, node.memory_mib = 60'000;
  }
  return nodes;
}

Job RandomJob(std::mt19937& random) {
  Job job;
  job.milli = kSizes[random() % std::size(kSizes)];
  job.gpus = random() % 8 == 0 ? static_cast<int>(random() % 4) : 1;
  if (job.gpus != 1) job.milli = kWholeGpu;
  job.cpu_milli = static_cast<int>(random() % 8) * 1000;
  job.memory_mib = static_cast<int>(random() % 8) * 2000;
  job.tenant = static_cast<int>(random() % 3);
  job.models = random() % 4 == 0 ? 1 + random() % 2 : 0;
  job.move_cost = 1 + static_cast<double>(random() % 3);
  return job;
}

// A history of one cluster; its trace of placements.
std::vector<Spot> Live(unsigned seed, Isolation isolation) {
  std::mt19937 random(seed);
  const Rules rules{isolation, random() % 2 == 0 ? SliceRule::kCompute : SliceRule::kMemory};
  Cluster cluster(RandomNodes(random, random() % 2 == 0), {{"A", 1, true, 0}, {"B", 2, false, 0}}, rules);
  std::vector<Job> usual;
  for (int i = 0; i < 20; ++i) usual.push_back(RandomJob(random));
  const JobMix mix(usual, 2);
  const Policy policies[] = {Policy::kSpillway, Policy::kFgd, Policy::kBestFit, Policy::kFirstFit,
                             Policy::kRandom};
  const Objective objectives[] = {Objective::kFragmentation, Objective::kFewestGpus, Objective::kEarliest};
  Placer placer(cluster, mix, {policies[random() % 5], objectives[random() % 3], seed});
  MovePolicy moves;
  moves.budget = static_cast<int64_t>(random() % 20);
  moves.pushed_aside = static_cast<int>(random() % 3);
  moves.effort = 5000;
  Consolidator consolidator(cluster, moves);
  std::vector<JobId> there;
  std::vector<Spot> trace;
  JobId next = 0;
  for (int step = 0; step < 60; ++step) {
    if (!there.empty() && random() % 3 == 0) {
      const size_t gone = random() % there.size();
      cluster.Remove(there[gone]);
      there.erase(there.begin() + static_cast<std::ptrdiff_t>(gone));
      const int before = cluster.gpus_on();
      const auto moved = consolidator.Consolidate();
      EXPECT_TRUE(moved.empty() || cluster.gpus_on() < before) << "moves that save nothing";
    } else {
      const Job job = RandomJob(random);
      std::vector<Move> moved;
      bool placed = false;
      if (job.Fractional() && step % 2 == 0) {
        placed = consolidator.Arrive(next, job, moved);
      } else if (const auto spot = placer.Decide(job)) {
        cluster.Place(next, job, *spot);
        placed = true;
      } else {
        for (int n = 0; n < static_cast<int>(cluster.nodes().size()); ++n)
          EXPECT_FALSE(cluster.FitsNode(job, n)) << "it was refused though it fits";
      }
      if (placed) there.push_back(next), trace.push_back(cluster.SpotOf(next)), ++next;
    }
    EXPECT_EQ(cluster.Check(), "") << "seed " << seed << " step " << step;
    EXPECT_LE(consolidator.moves(), moves.budget);
    for (const JobId id : there) EXPECT_TRUE(cluster.Placed(id)) << "lost";
  }
  return trace;
}

TEST(ClusterProperty, RulesHoldWhateverComes) {
  for (const Isolation isolation : {Isolation::kNone, Isolation::kFraction, Isolation::kGpu})
    for (unsigned seed = 1; seed <= 60 && !::testing::Test::HasFailure(); ++seed) (void)Live(seed, isolation);
}

TEST(ClusterProperty, TheSameEventsGiveTheSamePlacements) {
  for (const Isolation isolation : {Isolation::kNone, Isolation::kFraction, Isolation::kGpu})
    for (unsigned seed = 1; seed <= 10; ++seed) EXPECT_EQ(Live(seed, isolation), Live(seed, isolation));
}

}  // namespace
}  // namespace spillway::scheduler
