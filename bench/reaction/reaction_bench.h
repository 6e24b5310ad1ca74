// SPDX-License-Identifier: Apache-2.0
// How soon a server that dies, hangs, fails, loses its link or its agent, or gets slow is noticed, and what
// is lost: testbeds of two units with knotd or nginx, a stream of questions, one fault after another, found
// by agents or by active checks. Needs root, ip, knotd and nginx. One thread, the program's main one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/reaction/fault.h"
#include "core/policy.h"
#include "report/document.h"

namespace spillway::bench {

struct ReactionOptions {
  int rounds = 10;          // of each row
  uint32_t period_ms = 20;  // of the agents
  uint32_t questions_per_s = 1000;
  std::vector<lab::Workload> beds = {lab::Workload::kKnot, lab::Workload::kNginx};
  std::vector<Health> health = {Health::kPassive, Health::kActive};
  std::vector<Fault> faults{std::begin(kFaults), std::end(kFaults)};
  std::vector<spw_unit_policy> policies;  // empty: all
};

// Rows: docs/bench.md. Ratios: <bed>_<fault>_active_over_passive, of the median times until detection under
// wrr.
[[nodiscard]] Result<report::Document> RunReactionBench(
    const ReactionOptions& options,
    const std::function<void(double fraction, const std::string& message)>& on_progress);

}  // namespace spillway::bench
