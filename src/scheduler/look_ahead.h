// SPDX-License-Identifier: Apache-2.0
// What jobs are expected, learnt from those that are there, and what nodes are worth to them. Pure; immutable
// once built, so that it can be built on one thread while decisions go on by an older one on another.
//
// The jobs that run and wait are the right sample where jobs leave: a kind is there in proportion to how
// often it comes and how long it stays, and prices say which sets of jobs fill a node at one time. And they
// outlive a restart, as long as the jobs themselves do.
#pragma once

#include <optional>
#include <stop_token>
#include <vector>

#include "scheduler/fill_value.h"
#include "scheduler/fragmentation.h"

namespace spillway::scheduler {

// What is expected where these jobs run and wait: these, and a few of common sizes, so that a cluster with
// few jobs does not take them for all that ever comes.
[[nodiscard]] std::vector<Job> ExpectedJobs(const std::vector<Job>& running, const std::vector<Job>& waiting,
                                            const std::vector<Node>& nodes);

class LookAhead {
 public:
  // Of ExpectedJobs. Takes about a second for thousands of jobs on a thousand nodes; once `stop` is asked
  // for, it ends soon, and is of no use.
  LookAhead(const std::vector<Job>& running, const std::vector<Job>& waiting, const std::vector<Node>& nodes,
            size_t models, const std::stop_token& stop = {});

  [[nodiscard]] const JobMix& mix() const { return mix_; }
  [[nodiscard]] const FillValue& fill() const { return fill_; }

  // How many jobs may come or go before what was learnt from so many is out of date.
  [[nodiscard]] static size_t GoodFor(size_t present) { return 64 + 2 * present; }

 private:
  LookAhead(const std::vector<Job>& expected, const std::vector<Job>& running,
            const std::vector<Job>& waiting, const std::vector<Node>& nodes, size_t models,
            const std::stop_token& stop);

  JobMix mix_;
  FillValue fill_;
};

}  // namespace spillway::scheduler
