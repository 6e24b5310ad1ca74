// SPDX-License-Identifier: Apache-2.0
// What the allocation cache learns of the jobs that run and wait.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache_bed.h"

namespace spillway::scheduler {
namespace {

// Learns as the extender does, at once.
bool Learns(AllocationCache& cache) {
  const auto demand = cache.DemandIfOld();
  if (!demand) return false;
  cache.Use(
      std::make_shared<const LookAhead>(demand->running, demand->waiting, demand->nodes, demand->models),
      *demand);
  return true;
}

TEST(AllocationCache, LearnWhatRunsAndWaitsAndDecideByIt) {
  AllocationCache cache = ThreeNodes();
  ASSERT_TRUE(Learns(cache));
  EXPECT_EQ(cache.learnt(), 1u);
  EXPECT_FALSE(cache.DemandIfOld()) << "nothing has changed since";
  const PodAsk waits = Ask("w", kMilliResource, "2000", {{kModelsAnnotation, "A100-80"}});
  cache.Waits(waits);
  cache.Waits(waits);
  for (int i = 0; i < 200; ++i) {
    const PodAsk ask = Ask(fmt::format("p{}", i), kMilliResource, "500");
    const auto reserved = cache.Reserve(ask, "t");
    ASSERT_TRUE(reserved);
    cache.Confirm(ask.uid, reserved->ticket);
    if (i < 199) cache.Forget(ask.uid);
  }
  const auto demand = cache.DemandIfOld();
  ASSERT_TRUE(demand) << "hundreds came and went";
  EXPECT_EQ(demand->running.size(), 1u);
  ASSERT_EQ(demand->waiting.size(), 1u);
  EXPECT_EQ(demand->waiting[0].models, ModelSet{1} << 0) << "models are in the order of the nodes' names";
  ASSERT_TRUE(Learns(cache));
  // Decided as Placer does with what was learnt: half a GPU beside the half that runs, not on an idle one.
  const auto beside = cache.Reserve(Ask("q", kMilliResource, "500"), "t");
  ASSERT_TRUE(beside);
  EXPECT_EQ(beside->gpu, cache.Bookings()[0].place.gpu);
  cache.Forget(waits.uid);
  cache.Sync({kT4}, {}, cache.mark());
  ASSERT_TRUE(Learns(cache)) << "other nodes: what was learnt holds no more";
  EXPECT_TRUE(cache.DemandIfOld() == std::nullopt);
}

TEST(AllocationCache, ForgetThoseThatWaitedAndAreGone) {
  AllocationCache cache = ThreeNodes();
  const auto waits = [&](const std::string& name) { cache.Waits(Ask(name, kMilliResource, "2000")); };
  waits("stays"), waits("goes"), waits("asks-again");
  const uint64_t started = cache.mark();
  waits("comes-meanwhile"), waits("asks-again");
  cache.KeepWaiting({Ask("stays", kMilliResource, "2000").uid}, started);
  EXPECT_EQ(cache.waiting(), 3u) << "what waits since is not judged by an older list";
  cache.KeepWaiting({}, cache.mark());
  EXPECT_EQ(cache.waiting(), 0u);
}

TEST(AllocationCache, OfThoseThatWaitNoNamespaceCrowdsTheOthersOut) {
  AllocationCache cache = ThreeNodes();
  const auto wait = [&](const std::string& space, size_t count, const char* milli) {
    for (size_t i = 0; i < count; ++i) {
      PodAsk ask = From(space, Ask(fmt::format("{}-{}", space, i), kMilliResource, milli));
      cache.Waits(ask);
    }
  };
  const auto waiting = [&](int milli) {
    const auto demand = cache.DemandIfOld();  // outlives the loop over a part of it
    size_t found = 0;
    for (const Job& job : demand->waiting) found += job.TotalMilli() == milli;
    return found;
  };
  wait("few", 10, "100");
  wait("many", 1000, "200");
  EXPECT_EQ(cache.waiting(), 10 + AllocationCache::kMaxWaitingOfSpace);
  wait("more", 1000, "300");
  wait("most", 1000, "400");
  EXPECT_EQ(cache.waiting(), AllocationCache::kMaxWaiting);
  EXPECT_EQ(waiting(100), 10u) << "the oldest, and of the namespace with fewest";
  for (const int milli : {200, 300, 400})
    EXPECT_GE(waiting(milli), (AllocationCache::kMaxWaiting - 10) / 3) << milli;
}

TEST(AllocationCache, DropWhatWasLearntForOtherNodes) {
  AllocationCache cache = ThreeNodes();
  const auto demand = cache.DemandIfOld();
  ASSERT_TRUE(demand);
  cache.Sync({kT4}, {}, cache.mark());
  cache.Use(
      std::make_shared<const LookAhead>(demand->running, demand->waiting, demand->nodes, demand->models),
      *demand);
  EXPECT_EQ(cache.learnt(), 0u);
  EXPECT_TRUE(cache.DemandIfOld());
  EXPECT_FALSE(ThreeNodes("fraction").DemandIfOld()) << "slices have no prices";
}

}  // namespace
}  // namespace spillway::scheduler
