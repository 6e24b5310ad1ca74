// SPDX-License-Identifier: Apache-2.0
// Several producers and several workers at one engine.
#pragma once

#include <memory>
#include <vector>

#include "bench/dispatch/rig.h"

namespace spillway::bench {

// Of each end only Put (with Prepare and Flush), or only Get, is called, by one thread each.
struct Crowd {
  std::shared_ptr<void> engine;  // outlives the ends: destroyed last, so a Crowd must not be assigned to
  std::vector<std::unique_ptr<Rig>> producers, workers;
};

// native: atomic, unordered, and both with a shard per worker ("atomic, sharded", ...); event_sw and
// event_dsw: atomic; rte_ring, moodycamel, tbb: mpmc.
[[nodiscard]] std::vector<RigKind> CrowdKinds();

// Errors: kUnavailable where the machine or the build lacks what the engine needs.
[[nodiscard]] Result<Crowd> MakeCrowd(const RigKind& kind, size_t producers, size_t workers);
[[nodiscard]] Result<Crowd> MakeDomainCrowd(const RigKind& kind, size_t producers, size_t workers);

}  // namespace spillway::bench
