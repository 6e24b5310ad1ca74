// SPDX-License-Identifier: Apache-2.0
// How long one decision of the scheduler takes, one thread: while a cluster fills up, and when jobs come and
// go on a full one.
#pragma once

#include <functional>
#include <string>

#include "report/document.h"
#include "scheduler/replay/openb_lists.h"

namespace spillway::bench {

struct SchedBenchOptions {
  int rounds = 3;
  int decisions = 20'000;  // per round, when jobs come and go
};

[[nodiscard]] report::Document RunSchedBench(const scheduler::NodeList& nodes, const scheduler::JobList& jobs,
                                             const SchedBenchOptions& options,
                                             const std::function<void(double, const std::string&)>& progress);

}  // namespace spillway::bench
