// SPDX-License-Identifier: Apache-2.0
// Nodes, pods and a cache of three nodes for the allocation cache's tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "kube.h"
#include "scheduler/extender/allocation_cache.h"

namespace spillway::scheduler {

using testing::KubePod;

inline ClusterFile FileOf(const std::string& yaml) {
  auto file = ParseClusterFile(yaml, "c.yaml", true);
  EXPECT_TRUE(file) << file.error().message;
  return std::move(*file);
}

inline PodAsk Ask(const std::string& name, const std::string& resource, const std::string& amount,
                  nlohmann::json notes = nlohmann::json::object()) {
  auto ask = ReadPodAsk(KubePod(name, resource, amount, std::move(notes)));
  EXPECT_TRUE(ask) << ask.error().message;
  return std::move(*ask);
}

// The same of another namespace.
inline PodAsk From(const std::string& space, PodAsk ask) {
  ask.space = space;
  return ask;
}

inline BoundPod On(const PodAsk& ask, const std::string& node, const AllocationCache::Place& place) {
  return {ask, node, place.gpu, place.slice, false};
}

inline const KubeNode kT4{"t", "T4", 2, 64000, ""}, kA100{"a", "A100-80", 2, 64000, ""};

inline AllocationCache ThreeNodes(const std::string& isolation = "none") {
  AllocationCache cache(FileOf("cluster: {isolation: " + isolation + "}\n"));
  cache.Sync({kT4, kA100, {"bare", "GPU", 0, 64000, ""}}, {}, cache.mark());
  return cache;
}

}  // namespace spillway::scheduler
