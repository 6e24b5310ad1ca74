// SPDX-License-Identifier: Apache-2.0
// Prices of jobs, what nodes are worth by them, and what they prove.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "scheduler/fill_value.h"
#include "scheduler/rehearsal.h"
#include "scheduler/replay/placement_bound.h"
#include "scheduler/replay/placement_experiment.h"

namespace spillway::scheduler {
namespace {

JobKind Kind(int gpus, int milli, int cpu_milli, double share) { return {cpu_milli, gpus, milli, 0, share}; }

std::vector<Node> Nodes(int count, int gpus, int cpu_milli) {
  Node node;
  node.gpus = gpus;
  node.cpu_milli = cpu_milli;
  return std::vector<Node>(static_cast<size_t>(count), node);
}

float Worth(const PatternPrices& prices, int cpu_milli, std::vector<int16_t> free) {
  return prices.Worth(0, cpu_milli, free.data(), static_cast<int>(free.size()));
}

TEST(PatternPrices, TakeTheDearestSetThatFitsEachGpu) {
  PatternPrices prices({Kind(1, 600, 0, 1), Kind(1, 400, 0, 1), Kind(1, 300, 0, 1)},
                       ClassesOf(Nodes(1, 2, 1000)), 1, 10);
  prices.SetPrices({0.5, 0.4, 0.35}, false);
  EXPECT_FLOAT_EQ(Worth(prices, 1000, {1000}), 1.1F) << "300 + 300 + 400, not 600 + 400";
  EXPECT_FLOAT_EQ(Worth(prices, 1000, {590, 290}), 0.4F);
  EXPECT_FLOAT_EQ(Worth(prices, 1000, {600, 300}), 0.7F + 0.35F);
  EXPECT_FLOAT_EQ(Worth(prices, 1000, {0}), 0);
}

TEST(PatternPrices, CountGpusBesideTooLittleCpuAsWorthless) {
  PatternPrices prices({Kind(1, 1000, 10'000, 1)}, ClassesOf(Nodes(1, 4, 40'000)), 1, 10);
  prices.SetPrices({1}, false);
  EXPECT_NEAR(Worth(prices, 40'000, {1000, 1000, 1000, 1000}), 4, 1e-4);
  // Fractions of jobs count, and prices of CPU come in steps: 2 at least, little more.
  const float half = Worth(prices, 20'000, {1000, 1000, 1000, 1000});
  EXPECT_GE(half, 2 - 1e-4);
  EXPECT_LT(half, 2.4);
  EXPECT_NEAR(Worth(prices, 0, {1000, 1000, 1000, 1000}), 0, 1e-4);
}

TEST(PatternPrices, JobsForSeveralGpusNeedThemIdle) {
  PatternPrices prices({Kind(4, 1000, 0, 1), Kind(1, 500, 0, 1)}, ClassesOf(Nodes(1, 8, 1000)), 1, 10);
  prices.SetPrices({6, 0.5}, false);
  EXPECT_FLOAT_EQ(Worth(prices, 1000, {1000, 1000, 1000, 1000, 1000}), 6 + 1);
  EXPECT_FLOAT_EQ(Worth(prices, 1000, {1000, 1000, 1000, 500}), 3 + 0.5F);
}

TEST(FillValue, PricesAJobByWhatItLeavesOfNoUse) {
  // 600 and 400 come in pairs and fill a GPU; 700 leaves 300 that nobody takes: it costs a GPU as the pair
  // does.
  const std::vector<JobKind> kinds = {Kind(1, 600, 0, 0.25), Kind(1, 400, 0, 0.25), Kind(1, 700, 0, 0.5)};
  const FillValue fill(kinds, Nodes(10, 4, 1000), 1);
  const std::vector<double>& prices = fill.prices();
  EXPECT_NEAR(prices[0] + prices[1], prices[2], 0.05 * prices[2]);
  // Of three GPUs one holds a pair and two a 700 each: (1 + 2 x 0.7) / 3.
  EXPECT_GE(fill.full_at(), 0.8 - 1e-6) << "a bound that a packing exceeds";
  EXPECT_NEAR(fill.full_at(), 0.8, 0.02);
}

TEST(FillValue, GoesByOtherPricesOnceRepriced) {
  const std::vector<JobKind> kinds = {Kind(1, 1000, 0, 0.5), Kind(1, 500, 0, 0.5)};
  FillValue fill(kinds, Nodes(2, 2, 1000), 1);
  const int16_t free[] = {1000, 500};
  fill.Reprice({1, 0.25});
  EXPECT_FLOAT_EQ(fill.Of(0, 1000, free, 2), 1.25F);
  fill.Reprice({1, 0.75});
  EXPECT_FLOAT_EQ(fill.Of(0, 1000, free, 2), 1.5F + 0.75F);
  EXPECT_THAT(fill.prices(), testing::ElementsAre(1, 0.75));
}

// Jobs with much and with little CPU, in sizes that fill a GPU in pairs or not at all.
std::vector<Job> MixedJobs() {
  std::vector<Job> jobs;
  for (const auto& [milli, cpu_milli, times] : {std::tuple{1000, 12'000, 6},
                                                {1000, 2'000, 2},
                                                {810, 2'000, 4},
                                                {470, 9'000, 4},
                                                {650, 6'000, 2},
                                                {320, 4'000, 2}}) {
    Job job;
    job.milli = milli;
    job.cpu_milli = cpu_milli;
    jobs.insert(jobs.end(), static_cast<size_t>(times), job);
  }
  return jobs;
}

TEST(Rehearsal, TrialsTurnWrongPricesIntoBetterOnes) {
  // A third of the nodes have CPU for the jobs that need much of it, and keep it as long as these are dearer.
  // Of the others there come too few for the rest of the nodes and some of these.
  std::vector<Node> nodes = Nodes(12, 4, 8'000);
  for (size_t n = 0; n < nodes.size(); n += 3) nodes[n].cpu_milli = 80'000;
  Job light, heavy;
  light.cpu_milli = 2'000;
  heavy.cpu_milli = 20'000;
  const std::vector<Job> jobs = {light, heavy};
  const JobMix mix(jobs, 1);
  const auto priced = [&](double of_light, double of_heavy) {
    FillValue fill(mix.nearly_all(), nodes, 1);
    std::vector<double> prices;
    for (const JobKind& kind : mix.nearly_all())
      prices.push_back(kind.cpu_milli == light.cpu_milli ? of_light : of_heavy);
    fill.Reprice(std::move(prices));
    return fill;
  };
  const Rehearsal rehearsal(jobs, mix, nodes, 1, 1);
  const FillValue wrong = priced(1.01, 0.99);
  const double before = rehearsal.Allocated(wrong), right = rehearsal.Allocated(priced(0.9, 1.1));
  ASSERT_LT(before, right - 1);
  double last = before;
  for (const int trials : {0, 5, 60}) {
    const double after = rehearsal.Allocated(BetterByTrial(wrong, mix.nearly_all(), rehearsal, trials));
    EXPECT_GE(after, last) << trials << " trials";
    last = after;
  }
  EXPECT_GT(last, before + 0.5 * (right - before));
}

TEST(Rehearsal, WhatTrialsFindHoldsForJobsThatTheyHaveNotSeen) {
  const auto nodes = Nodes(12, 8, 72'000);
  const JobMix mix(MixedJobs(), 1);
  const FillValue without = BestFillValue(MixedJobs(), mix, nodes, 1);
  const FillValue with = BestFillValue(MixedJobs(), mix, nodes, 1, {}, 40);
  double gain = 0;
  for (const uint64_t seed : {11, 12, 13}) {
    const Rehearsal unseen(MixedJobs(), mix, nodes, 1, seed);
    gain += unseen.Allocated(with) - unseen.Allocated(without);
  }
  EXPECT_GT(gain / 3, -0.05);
}

TEST(Rehearsal, IsTheSameEveryTimeAndEndsWhenItIsToldTo) {
  const auto nodes = Nodes(12, 8, 72'000);
  const JobMix mix(MixedJobs(), 1);
  const FillValue one = BestFillValue(MixedJobs(), mix, nodes, 1, {}, 10);
  EXPECT_EQ(one.prices(), BestFillValue(MixedJobs(), mix, nodes, 1, {}, 10).prices());
  int asked = 0;
  (void)BestFillValue(MixedJobs(), mix, nodes, 1, {}, 1'000'000, [&asked] { return ++asked > 5'000; });
  EXPECT_LT(asked, 5'100);
}

TEST(Rehearsal, ATrialChangesAllKindsOrThoseBetweenTwo) {
  std::vector<JobKind> kinds;
  for (int i = 0; i < 12; ++i)
    kinds.push_back(Kind(i < 2 ? 0 : i < 10 ? 1 : i - 8, i < 2 ? 0 : 100 * i, 1000 * (i * 5 % 12), 1));
  const auto gpus = [&](size_t k) { return kinds[k].gpus == 1 ? kinds[k].milli : 1000 * kinds[k].gpus; };
  const auto cpu = [&](size_t k) { return kinds[k].cpu_milli; };
  base::SplitMix64 random(3);
  std::vector<int> changed(kinds.size(), 0);
  int of_all = 0, of_several = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::vector<double> change = DrawChange(kinds, random);
    ASSERT_EQ(change.size(), kinds.size());
    const auto none = std::count(change.begin(), change.end(), 0.0);
    ASSERT_LT(none, 12);
    for (size_t k = 0; k < kinds.size(); ++k) changed[k] += none > 0 && change[k] != 0 ? 1 : 0;
    if (none == 0) ++of_all;
    if (none > 0 && none < 11) ++of_several;
    // Nobody between the least and the most of those that were changed is left out.
    const auto all_between = [&](const auto& asks) {
      int least = kUnlimited, most = -1;
      for (size_t k = 0; k < kinds.size(); ++k)
        if (change[k] != 0) least = std::min(least, asks(k)), most = std::max(most, asks(k));
      for (size_t k = 0; k < kinds.size(); ++k)
        if (change[k] == 0 && asks(k) >= least && asks(k) <= most) return false;
      return true;
    };
    EXPECT_TRUE(all_between(gpus) || all_between(cpu));
  }
  EXPECT_NEAR(of_all, 500, 70);
  EXPECT_GT(of_several, 150);
  EXPECT_THAT(changed, testing::Each(testing::Gt(30))) << "one is never tried but with all others";
}

TEST(Placer, WithALookAheadKeepsCpuForTheJobsThatNeedIt) {
  // Jobs with much and with little CPU come alike, one GPU each. The second node has CPU for the former.
  std::vector<Node> nodes = Nodes(2, 2, 4'000);
  nodes[1].cpu_milli = 40'000;
  Job light, heavy;
  light.cpu_milli = 2'000;
  heavy.cpu_milli = 20'000;
  Cluster cluster(nodes, {{"T4", 1, false, 0}});
  const JobMix mix({light, heavy}, 1);
  const FillValue fill(mix.nearly_all(), nodes, 1);
  Placer placer(cluster, mix, {}, &fill);
  EXPECT_EQ(placer.Decide(light)->node, 0);
  EXPECT_EQ(placer.Decide(heavy)->node, 1);
  std::swap(nodes[0], nodes[1]);
  Cluster other(nodes, {{"T4", 1, false, 0}});
  EXPECT_EQ(Placer(other, mix, {}, &fill).Decide(light)->node, 1);
}

TEST(PlacementBound, IsExactWhereThePackingIsPlain) {
  // Ten GPUs, fifteen jobs of 700: each leaves 300.
  Job job;
  job.milli = 700;
  const PlacementBound bound = *BoundFinder(Nodes(5, 2, 1000), 1).Find(std::vector<Job>(15, job));
  EXPECT_NEAR(bound.any_pct, 70, 0.5);
  EXPECT_NEAR(bound.willing_pct, 70, 0.5);
}

TEST(PlacementBound, OfPoliciesThatRefuseNothingIsLower) {
  // Four GPUs; 700 and 1000 in turn. In hindsight four of 1000 fill all; but a 700 fits wherever a 1000 does,
  // so who takes the last 1000 has taken all the 700 before it.
  std::vector<Job> order;
  for (int i = 0; i < 6; ++i) {
    Job job;
    job.milli = i % 2 == 0 ? 700 : 1000;
    order.push_back(job);
  }
  const PlacementBound bound = *BoundFinder(Nodes(2, 2, 1000), 1).Find(order);
  EXPECT_NEAR(bound.any_pct, 100 * (3 + 0.7) / 4, 1) << "there are but three of 1000";
  EXPECT_LT(bound.willing_pct, bound.any_pct + 1e-9);
  // 700, 1000, 700, 1000 is what such a policy places.
  EXPECT_GE(bound.willing_pct, 100 * 3.4 / 4 - 1e-6);
}

TEST(PlacementBound, CountsASmallJobAgainstAllThatAreLarger) {
  // 60 GPUs; jobs for one GPU that need CPU, jobs for one that need memory, and 700, in turn. Neither of the
  // two fits wherever the other does, but a 700 does: who takes half of both has taken half of the 700.
  std::vector<Job> order;
  for (int i = 0; i < 120; ++i) {
    Job job;
    job.milli = i % 3 == 0 ? 700 : 1000;
    job.cpu_milli = i % 3 == 1 ? 2000 : 1000;
    job.memory_mib = i % 3 == 2 ? 2000 : 1000;
    order.push_back(job);
  }
  const PlacementBound bound = *BoundFinder(Nodes(15, 4, 1'000'000), 1).Find(order);
  EXPECT_GT(bound.any_pct, 99) << "no 700 at all";
  EXPECT_GE(bound.willing_pct, 90 - 1e-6) << "20 of each";
  EXPECT_LT(bound.willing_pct, 92) << "95: the 700 stop with one of the two, and the other goes on";
}

TEST(PlacementBound, OfManyKindsIsNearWhatAPolicyAllocates) {
  // Sizes of which few fill a GPU together, half of them with CPU of their own: hundreds of sets are as dear
  // as the dearest, so that a descent that is stopped early stands far above the least bound.
  NodeList nodes;
  nodes.models = {{"T4", 1, false, 0}};
  nodes.nodes = Nodes(40, 8, 1'000'000);
  JobList list;
  const auto add = [&list](int times, int milli, int cpu_milli) {
    TraceJob one;
    one.job.milli = milli;
    one.job.cpu_milli = cpu_milli;
    list.jobs.insert(list.jobs.end(), static_cast<size_t>(times), one);
  };
  for (int i = 0; i < 10; ++i) add(30, 1000, 4000 + 800 * i);
  add(140, 810, 3000);
  for (int i = 0; i < 2; ++i)
    add(48, 470, 8000 + 4000 * i), add(18, 650, 8000 + 4000 * i), add(20, 320, 4000 + 4000 * i);
  add(18, 460, 8000), add(11, 590, 8000), add(10, 550, 8000), add(16, 230, 4000), add(8, 220, 6000);
  PlacementOptions options{{Policy::kSpillway}, Objective::kFragmentation, 1, true};
  const PlacementRun run = RunPlacement(nodes, list, options, {}, {}).front();
  EXPECT_LE(run.at_130, run.bound->willing_pct + 1e-6);
  EXPECT_LT(run.bound->willing_pct, run.at_130 + 0.8);
}

TEST(PlacementBound, IsAboveWhateverAPolicyAllocates) {
  uint64_t state = 7;
  const auto draw = [&state](uint64_t below) { return static_cast<int>(spw_mix64(++state) % below); };
  for (int trial = 0; trial < 8; ++trial) {
    JobList list;
    for (int i = 0; i < 40; ++i) {
      TraceJob one;
      one.job.gpus = draw(8) == 0 ? 2 : draw(6) == 0 ? 0 : 1;
      one.job.milli = one.job.gpus == 1 ? 100 * (1 + draw(10)) : one.job.gpus == 0 ? 0 : kWholeGpu;
      one.job.cpu_milli = 1000 * draw(12);
      one.job.memory_mib = 1000 * draw(4);
      list.jobs.push_back(one);
    }
    NodeList nodes;
    nodes.models = {{"T4", 1, false, 0}};
    nodes.nodes = Nodes(4, 4, 20'000 + 1000 * draw(20));
    for (Node& node : nodes.nodes) node.memory_mib = 12'000;
    PlacementOptions options;
    options.policies.assign(std::begin(kPolicies), std::end(kPolicies));
    options.seeds = 1;
    options.bound = true;
    for (const PlacementRun& run : RunPlacement(nodes, list, options, {}, {})) {
      EXPECT_LE(run.at_130, run.bound->willing_pct + 1e-6) << ToString(run.policy) << " trial " << trial;
      EXPECT_LE(run.bound->willing_pct, run.bound->any_pct);
    }
  }
}

// A cluster of pods that all differ.
TEST(PatternPrices, KindsBeyondTheRangeOfSmallNumbersAreFound) {
  std::vector<JobKind> kinds(40'000, JobKind{0, 1, 1000, 0, 1});
  for (size_t k = 0; k < kinds.size(); ++k) kinds[k].cpu_milli = static_cast<int>(k);
  std::vector<double> prices(kinds.size(), 0.5), packed(kinds.size(), 0);
  prices.back() = 1;
  PatternPrices pricing(kinds, {{0, 100'000, 2, 1}}, 1, 1000);
  pricing.SetPrices(prices, true);
  EXPECT_NEAR(pricing.AddDearestSets({0, 100'000, 2, 1}, packed), 2, 0.01);
  EXPECT_NEAR(packed.back(), 2, 0.01);
}

}  // namespace
}  // namespace spillway::scheduler
