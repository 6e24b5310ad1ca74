// SPDX-License-Identifier: Apache-2.0
// The bounds of the placement experiment beside what every placement of a few jobs on a small cluster
// reaches: none is above them.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "scheduler/replay/placement_bound.h"

namespace spillway::scheduler {
namespace {

struct FewJobs {
  std::vector<Node> nodes;
  std::vector<Job> order;
};

// What nodes have left. Nodes that are alike and GPUs of a node are in order, so that states that differ by
// their names alone are one.
struct Left {
  int model, cpu, memory;
  std::vector<int> gpus;
  auto operator<=>(const Left&) const = default;
};
using AllLeft = std::vector<Left>;

template <class T>
T Any(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

FewJobs RandomFewJobs(unsigned seed) {
  std::mt19937 random(seed);
  FewJobs one;
  const int models = static_cast<int>(1 + random() % 3);
  one.nodes.resize(1 + random() % 3);
  for (Node& node : one.nodes) {
    node.model = static_cast<int>(random() % static_cast<unsigned>(models));
    node.cpu_milli = Any(random, {3, 4000, 8000, 16'000});
    node.memory_mib = Any(random, {4000, 8000, 100'000});
    node.gpus = static_cast<int>(1 + random() % 3);
  }
  const auto sizes =
      Any<std::vector<int>>(random, {{500}, {250, 500}, {300, 400, 700}, {50, 950}, {810, 190}});
  const auto cpus = Any<std::vector<int>>(random, {{1000}, {1000, 3000}, {500, 2000, 4000}, {0, 1000}, {0}});
  for (size_t count = 3 + random() % 8; count > 0; --count) {
    Job job;
    job.gpus = Any(random, {0, 1, 1, 1, 1, 2});
    const size_t size = random() % (sizes.size() + 1);
    job.milli = job.gpus == 0 ? 0 : job.gpus > 1 || size == sizes.size() ? kWholeGpu : sizes[size];
    job.cpu_milli = cpus[random() % cpus.size()];
    job.memory_mib = Any(random, {0, 1000, 4000});
    if (job.gpus > 0 && random() % 3 == 0) job.models = 1 + random() % ((1u << models) - 1);
    // Some come again and again.
    for (size_t times = random() % 4 == 0 ? 3 : 1; times > 0; --times) one.order.push_back(job);
  }
  return one;
}

AllLeft NothingPlaced(const FewJobs& one) {
  AllLeft state;
  for (const Node& node : one.nodes)
    state.push_back({node.model, node.cpu_milli, node.memory_mib,
                     std::vector<int>(static_cast<size_t>(node.gpus), kWholeGpu)});
  std::sort(state.begin(), state.end());
  return state;
}

// All that may be left once the job is somewhere.
std::set<AllLeft> WithJob(const AllLeft& state, const Job& job) {
  std::set<AllLeft> after;
  for (size_t n = 0; n < state.size(); ++n) {
    const Left& node = state[n];
    if (node.cpu < job.cpu_milli || node.memory < job.memory_mib) continue;
    if (job.gpus > 0 && !job.Accepts(node.model)) continue;
    const auto add = [&](std::vector<int> gpus) {
      AllLeft next = state;
      std::sort(gpus.begin(), gpus.end());
      next[n] = {node.model, node.cpu - job.cpu_milli, node.memory - job.memory_mib, std::move(gpus)};
      std::sort(next.begin(), next.end());
      after.insert(std::move(next));
    };
    if (job.gpus == 0) {
      add(node.gpus);
    } else if (job.gpus > 1) {
      std::vector<int> gpus = node.gpus;  // ascending: idle ones are last
      const auto idle = std::count(gpus.begin(), gpus.end(), kWholeGpu);
      if (idle < job.gpus) continue;
      std::fill(gpus.end() - job.gpus, gpus.end(), 0);
      add(gpus);
    } else {
      for (size_t gpu = 0; gpu < node.gpus.size(); ++gpu) {
        if (node.gpus[gpu] < job.milli) continue;
        std::vector<int> gpus = node.gpus;
        gpus[gpu] -= job.milli;
        add(gpus);
      }
    }
  }
  return after;
}

double MostAllocated(const std::set<AllLeft>& states) {
  int milli = 0, most = 0;
  for (const AllLeft& state : states) {
    int left = 0;
    milli = 0;
    for (const Left& node : state) {
      milli += static_cast<int>(node.gpus.size()) * kWholeGpu;
      for (const int free : node.gpus) left += free;
    }
    most = std::max(most, milli - left);
  }
  return 100.0 * most / milli;
}

// % of the cluster at best. `may_refuse`: a job that fits may be left out. Nothing: too many states.
std::optional<double> BestOf(const FewJobs& one, bool may_refuse) {
  constexpr size_t kMaxStates = 5000;
  std::set<AllLeft> states = {NothingPlaced(one)};
  for (const Job& job : one.order) {
    std::set<AllLeft> next;
    for (const AllLeft& state : states) {
      std::set<AllLeft> after = WithJob(state, job);
      if (may_refuse || after.empty()) next.insert(state);
      next.merge(after);
    }
    states = std::move(next);
    if (states.size() > kMaxStates) return std::nullopt;
  }
  return MostAllocated(states);
}

class PlacementBounds : public ::testing::TestWithParam<unsigned> {};

TEST_P(PlacementBounds, NoPlacementIsAboveThem) {
  const FewJobs one = RandomFewJobs(GetParam());
  const auto bound = BoundFinder(one.nodes, 3).Find(one.order);
  ASSERT_TRUE(bound);
  EXPECT_GE(bound->any_pct, BestOf(one, true).value_or(0) - 1e-6);
  EXPECT_GE(bound->willing_pct, BestOf(one, false).value_or(0) - 1e-6);
  EXPECT_LE(bound->willing_pct, bound->any_pct);
  EXPECT_LE(bound->any_pct, 100);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlacementBounds, ::testing::Range(1u, 61u));

Job Half() {
  Job job;
  job.milli = 500;
  return job;
}

// A job that asks for nothing is placed whatever else is: it takes nothing from the others.
TEST(PlacementBound, JobsThatAskForNothingChangeNothing) {
  Node node;
  node.cpu_milli = 8000;
  node.gpus = 2;
  const std::vector<Job> halves(4, Half());
  std::vector<Job> with_nothing = halves;
  Job nothing;
  nothing.gpus = nothing.milli = 0;
  with_nothing.insert(with_nothing.begin(), 8, nothing);
  const auto without = BoundFinder({node}, 1).Find(halves), with = BoundFinder({node}, 1).Find(with_nothing);
  EXPECT_NEAR(without->willing_pct, 100, 0.01);
  EXPECT_NEAR(with->willing_pct, without->willing_pct, 0.01);
  EXPECT_NEAR(with->any_pct, without->any_pct, 0.01);
}

TEST(PlacementBound, EndsSoonOnceItIsToStop) {
  Node node;
  int asked = 0;
  EXPECT_FALSE(BoundFinder({node}, 1).Find({Half()}, [&] { return ++asked == 5; }));
  EXPECT_EQ(asked, 5);
}

TEST(PlacementBound, IsNotSoughtForMoreShapesThanCanBeDealtWith) {
  std::vector<Job> order(kMaxBoundShapes + 1, Half());
  for (size_t i = 0; i < order.size(); ++i) order[i].cpu_milli = static_cast<int>(i);
  EXPECT_EQ(ShapesIn(order), kMaxBoundShapes + 1);
  Node node;
  EXPECT_FALSE(BoundFinder({node}, 1).Find(order));
}

}  // namespace
}  // namespace spillway::scheduler
