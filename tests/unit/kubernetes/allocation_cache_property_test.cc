// SPDX-License-Identifier: Apache-2.0
// The allocation cache on random pods: what it gives is what Placer would.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "cache_bed.h"

namespace spillway::scheduler {
namespace {

TEST(AllocationCache, WhatIsBookedIsWhatPlacerWouldDo) {
  for (const char* isolation : {"none", "fraction", "gpu"}) {
    std::mt19937 random(42);
    const ClusterFile rules = FileOf(std::string("cluster: {isolation: ") + isolation + "}\n");
    AllocationCache cache(rules);
    std::vector<KubeNode> nodes;
    std::vector<Node> plain;
    const std::vector<GpuModel> models = {ModelByName("A100-80"), ModelByName("T4")};
    std::vector<std::string> names;
    for (int i = 0; i < 12; ++i) {
      const std::string name = fmt::format("n{:02}", i);
      const int gpus = 1 + static_cast<int>(random() % 8);
      nodes.push_back({name, models[static_cast<size_t>(i % 2)].name, gpus, 1'000'000, ""});
      Node node;
      node.name = name;
      node.gpus = gpus;
      node.model = i % 2;
      node.cpu_milli = 1'000'000;
      plain.push_back(node);
      names.push_back(name);
    }
    cache.Sync(nodes, {}, cache.mark());
    Cluster cluster(plain, models, rules.cluster.rules());
    std::map<std::string, JobId> there;
    std::map<std::string, uint64_t> tickets;
    std::map<std::string, int> tenants = {{"", 0}, {"red", 1}, {"blue", 2}};
    int placed = 0;
    for (int step = 0; step < 400; ++step) {
      if (!there.empty() && random() % 3 == 0) {
        const auto gone = std::next(there.begin(), static_cast<int>(random() % there.size()));
        ASSERT_TRUE(cache.GiveBack(gone->first, tickets[gone->first]));
        cluster.Remove(gone->second);
        there.erase(gone);
        continue;
      }
      const char* const milli[] = {"100", "230", "470", "500", "1000", "2000", "4000"};
      const std::string tenant = random() % 2 == 0 ? "red" : "blue";
      const PodAsk ask = From(tenant, Ask(fmt::format("p{}", step), kMilliResource, milli[random() % 7]));
      Job job = ask.job;
      job.memory_mib = 0;
      job.tenant = tenants[tenant];
      std::vector<Job> usual;
      for (const auto& [uid, id] : there) usual.push_back(cluster.JobOf(id));
      usual.push_back(ask.job);
      const JobMix mix(usual, static_cast<int>(models.size()));
      const auto spot = Placer(cluster, mix).Decide(job);
      for (const std::string& name : names) {
        const int n = static_cast<int>(&name - names.data());
        EXPECT_EQ(cache.Judge(ask, name).why.empty(), cluster.FitsNode(job, n)) << name;
      }
      const std::vector<int> scores = cache.Score(ask, names);
      if (!spot) {
        EXPECT_EQ(scores, std::vector<int>(names.size(), 0));
        continue;
      }
      EXPECT_EQ(std::max_element(scores.begin(), scores.end()) - scores.begin(), spot->node) << step;
      EXPECT_EQ(std::count(scores.begin(), scores.end(), kMaxPriority), 1);
      const auto place = cache.Reserve(ask, names[static_cast<size_t>(spot->node)]);
      ASSERT_TRUE(place) << place.error().message;
      const auto id = static_cast<JobId>(step);
      cluster.Place(id, job, *spot);
      there[ask.uid] = id;
      tickets[ask.uid] = place->ticket;
      if (job.Fractional()) {
        EXPECT_EQ(place->gpu, std::to_string(spot->gpu));
        if (cluster.SpotOf(id).start >= 0) {
          EXPECT_THAT(place->slice, ::testing::EndsWith(fmt::format("@{}", cluster.SpotOf(id).start)));
        }
      }
      ++placed;
      ASSERT_EQ(cache.cluster().Check(), "");
      ASSERT_EQ(cache.cluster().gpus_on(), cluster.gpus_on());
    }
    EXPECT_GT(placed, 100);
  }
}

}  // namespace
}  // namespace spillway::scheduler
