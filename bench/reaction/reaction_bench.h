// SPDX-License-Identifier: Apache-2.0
// How soon a server that dies, hangs, or loses its agent is noticed, and what is lost: a testbed of two
// servers with knotd, a stream of questions, one fault after another. Needs root, knotd and ip. One thread,
// the program's main one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/policy.h"
#include "model/error.h"
#include "report/document.h"

namespace spillway::bench {

enum class Fault { kProcessKilled, kProcessStopped, kAgentKilled };

struct ReactionOptions {
  int rounds = 20;          // each fault under each policy so often
  uint32_t period_ms = 20;  // of the agents
  uint32_t questions_per_s = 1000;
  std::vector<spw_unit_policy> policies;  // empty: all
};

// Rows: fault, policy, rounds, undetected, detect_ms_p50, detect_ms_p99, lost (mean per round, until it was
// detected), lost_after_detect (mean, probes included), back_ms_p50, back_ms_p99.
[[nodiscard]] Result<report::Document> RunReactionBench(
    const ReactionOptions& options,
    const std::function<void(double fraction, const std::string& message)>& on_progress);

}  // namespace spillway::bench
