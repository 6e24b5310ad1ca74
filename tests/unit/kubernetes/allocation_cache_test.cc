// SPDX-License-Identifier: Apache-2.0
// The allocation cache: nothing is given twice, and what the API server says holds.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "cache_bed.h"

namespace spillway::scheduler {
namespace {

using ::testing::HasSubstr;

TEST(AllocationCache, RefuseWithAReasonAndSayWhetherItIsForGood) {
  AllocationCache cache = ThreeNodes();
  const auto why = [&](const PodAsk& ask, const char* node) { return cache.Judge(ask, node).why; };
  const PodAsk part = Ask("p", kMilliResource, "600");
  EXPECT_EQ(why(part, "t"), "");
  EXPECT_EQ(why(part, "bare"), "Spillway knows of no GPUs on this node");
  EXPECT_TRUE(cache.Judge(part, "nowhere").for_good);
  EXPECT_EQ(why(Ask("p", kMilliResource, "3000"), "t"), "it has 2 GPUs, asked for: 3");
  EXPECT_EQ(why(Ask("p", kMilliResource, "500", {{kModelsAnnotation, "A10"}}), "t"),
            "its GPUs are T4, asked for: A10");
  EXPECT_THAT(why(Ask("p", "nvidia.com/mig-1g.10gb", "1"), "a"), HasSubstr("under isolation fraction only"));
  ASSERT_TRUE(cache.Reserve(Ask("q", kMilliResource, "600"), "t"));
  ASSERT_TRUE(cache.Reserve(Ask("r", kMilliResource, "700"), "t"));
  EXPECT_EQ(why(part, "t"), "the most that a GPU has left is 400 milli, asked for: 600");
  EXPECT_FALSE(cache.Judge(part, "t").for_good);
  EXPECT_EQ(why(Ask("p", kMilliResource, "1000"), "t"), "0 of its 2 GPUs are idle, asked for: 1");
  EXPECT_THAT(why(Ask("p", "nvidia.com/gpu", "1"), "t"), HasSubstr("allocated by Spillway"));
  EXPECT_EQ(why(Ask("p", "", ""), "bare"), "") << "a pod without GPUs goes anywhere";
}

// An annotation can be edited after the pod was bound.
TEST(AllocationCache, APodIsWhereItIsWhateverModelsItNamesByNow) {
  AllocationCache cache = ThreeNodes();
  const PodAsk edited = Ask("p", kMilliResource, "600", {{kModelsAnnotation, "nothing"}});
  cache.Sync({kT4, kA100}, {On(edited, "t", {"1", ""})}, cache.mark());
  const PodAsk other = Ask("q", kMilliResource, "1000");
  EXPECT_EQ(cache.Judge(other, "t").why, "") << "GPU 0 is free";
  EXPECT_EQ(cache.Reserve(other, "t")->gpu, "0");
}

TEST(AllocationCache, GiveASliceOfTheProfileThatWasAskedFor) {
  AllocationCache cache = ThreeNodes("fraction");
  const auto three = cache.Reserve(Ask("p", "nvidia.com/mig-3g.40gb", "1"), "a");
  ASSERT_TRUE(three) << three.error().message;
  EXPECT_EQ(*three, (AllocationCache::Place{"0", "3g@4"}));
  const auto four = cache.Reserve(Ask("q", "nvidia.com/mig-4g.40gb", "1"), "a");
  EXPECT_EQ(*four, (AllocationCache::Place{"0", "4g@0"})) << "beside it";
  EXPECT_EQ(cache.Reserve(Ask("r", "nvidia.com/mig-1g.20gb", "1"), "a")->slice.substr(0, 6), "1g+me@");
  EXPECT_EQ(cache.Judge(Ask("s", "nvidia.com/mig-1g.5gb", "1"), "a").why, "its A100-80 has no slice 1g.5gb");
  EXPECT_EQ(cache.Judge(Ask("s", "nvidia.com/mig-1g.5gb", "1"), "t").why, "its T4 has no slice 1g.5gb");
  EXPECT_EQ(cache.Reserve(Ask("u", "nvidia.com/mig-7g.80gb", "1"), "a").error().message,
            "a: 0 of its 2 GPUs are idle, asked for: 1");
  EXPECT_EQ(cache.cluster().Check(), "");
}

TEST(AllocationCache, KeepTenantsApart) {
  AllocationCache cache = ThreeNodes("gpu");
  for (const char* pod : {"p", "q"})
    ASSERT_TRUE(cache.Reserve(From("red", Ask(pod, kMilliResource, "600")), "t"));
  const PodAsk more = Ask("r", kMilliResource, "100");
  EXPECT_EQ(cache.Judge(From("blue", more), "t").why, "it has room on GPUs of another tenant only");
  EXPECT_EQ(cache.Judge(From("red", more), "t").why, "");
}

TEST(AllocationCache, ATenantMayHaveSeveralNamespaces) {
  AllocationCache cache(FileOf("cluster: {isolation: gpu}\n"));
  cache.SetTenants({{"red-1", "red"}, {"red-2", "red"}});
  cache.Sync({kT4}, {}, cache.mark());
  for (const char* pod : {"p", "q"})
    ASSERT_TRUE(cache.Reserve(From("red-1", Ask(pod, kMilliResource, "600")), "t"));
  const PodAsk more = Ask("r", kMilliResource, "100");
  EXPECT_EQ(cache.Judge(From("red-2", more), "t").why, "");
  EXPECT_EQ(cache.Judge(From("red", more), "t").why, "") << "a namespace of the tenant's own name";
  EXPECT_EQ(cache.Judge(From("blue", more), "t").why, "it has room on GPUs of another tenant only");
}

TEST(AllocationCache, AWatchTellsWhatComesAndGoesAndWhatHasGoneStaysAway) {
  AllocationCache cache = ThreeNodes();
  const PodAsk ask = Ask("p", kMilliResource, "600"), whole = Ask("w", kMilliResource, "2000");
  cache.See(On(ask, "t", {"1", ""}));
  ASSERT_EQ(cache.Bookings().size(), 1u);
  EXPECT_EQ(cache.Bookings()[0].place.gpu, "1");
  EXPECT_NE(cache.Judge(whole, "t").why, "");
  cache.Forget(ask.uid);
  EXPECT_EQ(cache.Judge(whole, "t").why, "");
  cache.Sync({kT4, kA100}, {On(ask, "t", {"1", ""})}, cache.mark());
  EXPECT_TRUE(cache.Bookings().empty()) << "the list was made before it went";
  const PodAsk doubtful = Ask("d", kMilliResource, "600");
  const auto place = cache.Reserve(doubtful, "t");
  cache.Doubt(doubtful.uid, place->ticket);
  cache.See(On(doubtful, "t", *place));
  EXPECT_EQ(cache.Bookings()[0].state, AllocationCache::State::kConfirmed);
  BoundPod done = On(doubtful, "t", *place);
  done.finished = true;
  cache.See(done);
  EXPECT_TRUE(cache.Bookings().empty());
}

// Who may make pods in a namespace may write whatever he likes at them.
TEST(AllocationCache, APodsOwnWordDoesNotMakeItAnotherTenants) {
  AllocationCache cache = ThreeNodes("gpu");
  PodAsk red = Ask("p", kMilliResource, "600"), thief = Ask("q", kMilliResource, "300");
  auto pod = KubePod("q", kMilliResource, "300", {{"spillway.io/tenant", "ml"}});
  pod["metadata"]["namespace"] = "elsewhere";
  thief = ReadPodAsk(pod).value();
  ASSERT_TRUE(cache.Reserve(red, "t"));
  const auto second = cache.Reserve(thief, "t");
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->gpu, "1") << "not beside the other tenant's";
}

TEST(AllocationCache, AGpuAnnotationThatIsEditedAfterTheBindMovesNothing) {
  AllocationCache cache = ThreeNodes();
  const PodAsk ask = Ask("p", kMilliResource, "600");
  const auto place = cache.Reserve(ask, "t");
  ASSERT_EQ(place->gpu, "0");
  cache.Confirm(ask.uid, place->ticket);
  for (int look = 0; look < 2; ++look) {
    cache.Sync({kT4, kA100}, {On(ask, "t", {"1", ""})}, cache.mark());
    ASSERT_EQ(cache.Bookings().size(), 1u);
    EXPECT_EQ(cache.Bookings()[0].place.gpu, "0");
  }
}

TEST(AllocationCache, NothingNewIsGivenByNumberWhereAGpuIsNotAllocatable) {
  AllocationCache cache(FileOf("cluster: {}\n"));
  auto node = testing::KubeNodeOf("n", "Tesla-T4", 4, 15360);
  node["status"]["capacity"] = {{"nvidia.com/gpu", "4"}};
  for (const char* allocatable : {"4", "3"}) {
    node["status"]["allocatable"]["nvidia.com/gpu"] = allocatable;
    cache.Sync({ReadKubeNode(node).value()}, {}, cache.mark());
    EXPECT_EQ(cache.Judge(Ask("p", kMilliResource, "600"), "n").why,
              allocatable == std::string("4")
                  ? ""
                  : "1 of its 4 GPUs cannot be allocated, and which one is not known");
    EXPECT_EQ(cache.Judge(Ask("q", "nvidia.com/gpu", "1"), "n").why, "") << "the device plugin knows which";
  }
}

TEST(AllocationCache, AReservationThatIsGivenBackIsFree) {
  AllocationCache cache = ThreeNodes();
  const PodAsk ask = Ask("p", kMilliResource, "2000");
  const auto place = cache.Reserve(ask, "t");
  ASSERT_EQ(place->gpu, "0,1");
  EXPECT_NE(cache.Judge(Ask("q", kMilliResource, "100"), "t").why, "");
  EXPECT_TRUE(cache.GiveBack(ask.uid, place->ticket));
  EXPECT_FALSE(cache.GiveBack(ask.uid, place->ticket));
  EXPECT_EQ(cache.Judge(Ask("q", kMilliResource, "100"), "t").why, "");
  EXPECT_EQ(cache.cluster().gpus_on(), 0);
}

TEST(AllocationCache, OnlyTheCallThatReservedDecides) {
  AllocationCache cache = ThreeNodes();
  const PodAsk ask = Ask("p", kMilliResource, "600");
  const auto first = cache.Reserve(ask, "t");
  ASSERT_TRUE(first);
  for (const char* node : {"t", "a"})
    EXPECT_EQ(cache.Reserve(ask, node).error().message, "ml/p is being bound to t") << node;
  cache.Doubt(ask.uid, first->ticket);
  const auto second = cache.Reserve(ask, "t");
  ASSERT_TRUE(second);
  EXPECT_EQ(*second, *first) << "its place is kept";
  EXPECT_FALSE(cache.GiveBack(ask.uid, first->ticket)) << "the second bind's by now";
  cache.Confirm(ask.uid, first->ticket);
  EXPECT_EQ(cache.Bookings()[0].state, AllocationCache::State::kReserved);
  cache.Confirm(ask.uid, second->ticket);
  const auto third = cache.Reserve(ask, "t");
  ASSERT_TRUE(third);
  EXPECT_FALSE(cache.GiveBack(ask.uid, third->ticket)) << "it is there for certain";
  EXPECT_EQ(cache.Bookings()[0].state, AllocationCache::State::kConfirmed);
}

TEST(AllocationCache, APlaceInDoubtStaysUntilASyncDecidesWhateverIsAskedMeanwhile) {
  AllocationCache cache = ThreeNodes();
  const PodAsk ask = Ask("p", kMilliResource, "2000"), other = Ask("q", kMilliResource, "1000");
  EXPECT_FALSE(cache.InDoubt(ask.uid));
  cache.Doubt(ask.uid, cache.Reserve(ask, "t")->ticket);
  EXPECT_TRUE(cache.InDoubt(ask.uid));
  EXPECT_EQ(cache.Judge(ask, "t").why, "") << "what it has is not in its own way";
  EXPECT_THAT(cache.Judge(ask, "a").why, HasSubstr("ml/p may already be bound to t"));
  EXPECT_FALSE(cache.Judge(ask, "a").for_good);
  EXPECT_EQ(cache.Score(ask, {"a", "t"}), (std::vector<int>{0, kMaxPriority}));
  EXPECT_THAT(cache.Reserve(ask, "a").error().message, HasSubstr("may already be bound to t"));
  EXPECT_EQ(cache.Judge(other, "t").why, "0 of its 2 GPUs are idle, asked for: 1");
  cache.Sync({kT4, kA100}, {}, cache.mark());
  EXPECT_EQ(cache.Judge(ask, "a").why, "") << "it is on no node";
  EXPECT_EQ(cache.Judge(other, "t").why, "");
}

// Another extender's claim whose bind failed; then it bound the pod elsewhere.
TEST(AllocationCache, APodThatIsBoundIsWhereItIsWhateverWasSupposedOfIt) {
  const PodAsk ask = Ask("p", kMilliResource, "1000"), other = Ask("q", kMilliResource, "1000");
  for (const bool by_watch : {false, true})
    for (const auto& [node, gpu] : {std::pair{"a", "0"}, {"t", "1"}}) {
      AllocationCache cache = ThreeNodes();
      cache.Suppose(On(ask, "t", {"0", ""}));
      ASSERT_TRUE(cache.InDoubt(ask.uid));
      const BoundPod bound = On(ask, node, {gpu, ""});
      by_watch ? cache.See(bound) : cache.Adopt(bound);
      EXPECT_FALSE(cache.InDoubt(ask.uid));
      EXPECT_TRUE(cache.Knows(ask.uid, node));
      ASSERT_EQ(cache.Bookings().size(), 1u);
      EXPECT_EQ(cache.Bookings()[0].place.gpu, gpu);
      EXPECT_EQ(cache.cluster().gpus_on(), 1);
      cache.Sync({kT4, kA100}, {bound}, cache.mark());
      EXPECT_EQ(cache.Bookings()[0].place.gpu, gpu);
      const auto place = cache.Reserve(other, node);
      if (place) EXPECT_NE(place->gpu, gpu);
      EXPECT_EQ(cache.cluster().Check(), "");
    }
}

TEST(AllocationCache, AreRebuiltFromAnnotationsToTheSamePlaces) {
  AllocationCache before = ThreeNodes("fraction");
  std::vector<BoundPod> pods;
  const auto add = [&](const PodAsk& ask, const char* node) {
    const auto place = before.Reserve(ask, node);
    ASSERT_TRUE(place) << place.error().message;
    before.Confirm(ask.uid, place->ticket);
    pods.push_back(On(ask, node, *place));
  };
  add(Ask("p1", kMilliResource, "300"), "a");
  add(Ask("p2", kMilliResource, "140"), "a");
  add(Ask("p3", kMilliResource, "1000"), "a");
  add(Ask("p4", kMilliResource, "1000"), "t");
  AllocationCache after(FileOf("cluster: {isolation: fraction}\n"));
  std::shuffle(pods.begin(), pods.end(), std::mt19937(7));
  after.Sync({kT4, kA100}, pods, after.mark());
  const auto left = before.Bookings(), right = after.Bookings();
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].uid, right[i].uid);
    EXPECT_EQ(left[i].place, right[i].place) << left[i].pod;
    EXPECT_TRUE(right[i].placed);
  }
  EXPECT_EQ(after.cluster().Check(), "");
}

TEST(AllocationCache, ASyncFreesWhatIsGoneAndKeepsWhatIsUnderWay) {
  AllocationCache cache = ThreeNodes();
  const PodAsk gone = Ask("gone", kMilliResource, "1000"), fresh = Ask("fresh", kMilliResource, "1000"),
               doubtful = Ask("doubtful", kMilliResource, "1000"), way = Ask("way", kMilliResource, "1000");
  cache.Confirm(gone.uid, cache.Reserve(gone, "t")->ticket);
  const uint64_t listed = cache.mark();
  cache.Confirm(fresh.uid, cache.Reserve(fresh, "t")->ticket);
  cache.Doubt(doubtful.uid, cache.Reserve(doubtful, "a")->ticket);
  ASSERT_TRUE(cache.Reserve(way, "a"));
  cache.Sync({kT4, kA100}, {}, listed);
  std::set<std::string> left;
  for (const auto& view : cache.Bookings()) left.insert(view.pod);
  EXPECT_EQ(left, (std::set<std::string>{"ml/fresh", "ml/doubtful", "ml/way"}))
      << "the list is older than they";
  cache.Sync({kT4, kA100}, {}, cache.mark());
  left.clear();
  for (const auto& view : cache.Bookings()) left.insert(view.pod);
  EXPECT_EQ(left, (std::set<std::string>{"ml/way"})) << "a bind that is under way decides itself";
  EXPECT_EQ(cache.cluster().gpus_on(), 1);
}

TEST(AllocationCache, CountWhatRunsAgainstTheRulesAndGoOn) {
  AllocationCache cache = ThreeNodes();
  std::vector<BoundPod> pods = {On(Ask("p", kMilliResource, "700"), "t", {"0", ""}),
                                On(Ask("q", kMilliResource, "700"), "t", {"0", ""}),
                                On(Ask("r", kMilliResource, "700"), "t", {"9", "x@y"}),
                                On(Ask("s", "nvidia.com/gpu", "1"), "a", {})};
  pods.push_back(pods[0]);
  pods.back().ask.uid = "finished";
  pods.back().finished = true;
  cache.Sync({kT4, kA100}, pods, cache.mark());
  int unplaced = 0;
  for (const auto& view : cache.Bookings()) unplaced += view.placed ? 0 : 1;
  EXPECT_EQ(unplaced, 2);
  EXPECT_EQ(cache.cluster().gpus_on(), 2);
  EXPECT_THAT(cache.Judge(Ask("u", kMilliResource, "100"), "a").why, HasSubstr("device plugin"));
  cache.Sync({}, {}, cache.mark());
  EXPECT_EQ(cache.cluster().gpus(), 0) << "nodes go, too";
}

TEST(AllocationCache, WhatCannotBePlacedOrReadKeepsTheOtherGiverAway) {
  AllocationCache cache = ThreeNodes();
  const PodAsk whole = Ask("w", "nvidia.com/gpu", "1"), part = Ask("u", kMilliResource, "100");
  cache.Sync({kT4, kA100}, {On(Ask("p", kMilliResource, "700"), "t", {"9", ""})}, cache.mark());
  ASSERT_FALSE(cache.Bookings()[0].placed);
  EXPECT_THAT(cache.Judge(whole, "t").why, HasSubstr("allocated by Spillway"));
  EXPECT_EQ(cache.Judge(whole, "a").why, "");
  nlohmann::json odd = KubePod("q", "nvidia.com/mig-1g.5gb", "2");
  odd["spec"]["nodeName"] = "a";
  ASSERT_FALSE(ReadBoundPod(odd));
  cache.Sync({kT4, kA100}, {}, cache.mark(), {ReadUnreadablePod(odd)});
  EXPECT_THAT(cache.Judge(part, "a").why, HasSubstr("device plugin"));
  EXPECT_EQ(cache.Judge(whole, "t").why, "") << "that pod is gone";
  odd["status"]["phase"] = "Failed";
  cache.Sync({kT4, kA100}, {}, cache.mark(), {ReadUnreadablePod(odd)});
  EXPECT_EQ(cache.Judge(part, "a").why, "");
}

TEST(AllocationCache, NoPartOfAGpuIsGivenWhereAJobsGpuIsNotKnown) {
  AllocationCache cache = ThreeNodes();
  const PodAsk whole = Ask("w", "nvidia.com/gpu", "1"), part = Ask("u", kMilliResource, "100");
  const std::string unknown = "a pod there holds a GPU that Spillway cannot identify";
  nlohmann::json odd = KubePod("q", kMilliResource, "1500");
  odd["spec"]["nodeName"] = "t";
  cache.Sync({kT4, kA100}, {}, cache.mark(), {ReadUnreadablePod(odd)});
  EXPECT_EQ(cache.Judge(part, "t").why, unknown);
  EXPECT_EQ(cache.Judge(part, "a").why, "");
  cache.Sync({kT4, kA100}, {On(Ask("p", kMilliResource, "700"), "t", {"9", ""})}, cache.mark());
  EXPECT_EQ(cache.Judge(part, "t").why, unknown);
  cache.Sync({kT4, kA100}, {}, cache.mark());
  EXPECT_EQ(cache.Judge(part, "t").why, "") << "they are gone";
  cache.Adopt(On(Ask("p", kMilliResource, "700"), "t", {"9", ""}));
  EXPECT_EQ(cache.Judge(part, "t").why, unknown);
  // The device plugin knows what it gave.
  odd = KubePod("q", "nvidia.com/mig-1g.5gb", "2");
  odd["spec"]["nodeName"] = "a";
  cache.Sync({kT4, kA100}, {}, cache.mark(), {ReadUnreadablePod(odd)});
  EXPECT_EQ(cache.Judge(whole, "a").why, "");
  EXPECT_THAT(cache.Judge(part, "a").why, HasSubstr("device plugin"));
}

TEST(AllocationCache, CountTheCpuThatPodsWithoutGpusTake) {
  AllocationCache cache = ThreeNodes();
  const auto cpu = [&](std::map<std::string, int64_t> other) {
    PodAsk plain = Ask("p", "", "");  // 2 CPUs
    cache.Sync({kT4}, {On(plain, "t", {})}, cache.mark(), {}, std::move(other));
    return cache.cluster().nodes()[0].cpu_milli;
  };
  EXPECT_EQ(cpu({}), 62'000);
  EXPECT_EQ(cpu({{"t", 60'000}, {"u", 1}}), 2'000);
  EXPECT_EQ(cpu({{"t", 5'000'000'000}}), 0);
}

TEST(AllocationCache, AClusterFilesJobsStay) {
  AllocationCache cache(
      FileOf("cluster:\n  nodes: [{name: f, model: T4, gpus: 2}]\n  jobs: [{name: j, node: f, gpu: 1, milli: "
             "800}]\n"));
  cache.Sync({{"f", "A10", 8, 32000, ""}, kT4}, {}, cache.mark());
  EXPECT_EQ(cache.cluster().gpus(), 4) << "the file's word on f goes before its labels";
  EXPECT_EQ(cache.Reserve(Ask("p", kMilliResource, "200"), "f")->gpu, "1");
  EXPECT_EQ(cache.Judge(Ask("q", kMilliResource, "2000"), "f").for_good, false);
}

TEST(AllocationCache, LearnNodesFromASchedulerThatSendsThemWhole) {
  AllocationCache cache(FileOf("cluster: {}\n"));
  EXPECT_TRUE(cache.Judge(Ask("p", kMilliResource, "100"), "t").for_good);
  cache.Learn({kT4, kA100});
  EXPECT_EQ(cache.Reserve(Ask("p", kMilliResource, "100"), "t")->gpu, "0");
  KubeNode more = kT4;
  more.gpus = 4;
  const Cluster* const before = &cache.cluster();
  cache.Learn({kT4, kA100});
  EXPECT_EQ(&cache.cluster(), before) << "nothing new";
  cache.Learn({more});
  EXPECT_EQ(cache.cluster().gpus(), 6);
  EXPECT_EQ(cache.cluster().gpus_on(), 1) << "its job stays";
}

TEST(AllocationCache, KeepSoManyModelsAndNodes) {
  AllocationCache cache(FileOf("cluster: {}\n"));
  std::vector<KubeNode> nodes;
  for (size_t i = 0; i <= kMaxModels; ++i)
    nodes.push_back({fmt::format("n{:03}", i), fmt::format("model {}", i), 1, 64000, ""});
  cache.Learn(nodes);
  const PodAsk ask = Ask("p", kMilliResource, "100");
  EXPECT_THAT(cache.Judge(ask, nodes.back().name).why, HasSubstr("at most 31 models of GPU"));
  const Cluster* const before = &cache.cluster();
  cache.Learn(nodes);
  EXPECT_EQ(&cache.cluster(), before) << "what is said of a node is not taken for a change of it";
  for (size_t i = nodes.size(); i <= kMaxNodes; ++i)
    nodes.push_back({fmt::format("n{:05}", i), "", 0, 64000, ""});
  cache.Learn(nodes);
  EXPECT_THAT(cache.Judge(ask, nodes.back().name).why, HasSubstr("at most 20000 nodes"));
}

// The property: of all nodes, 10 goes to the one that Placer takes, and the GPU there is Placer's.
}  // namespace
}  // namespace spillway::scheduler
