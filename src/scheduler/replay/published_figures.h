// SPDX-License-Identifier: Apache-2.0
// What the authors of FGD (USENIX ATC 2023) published for the placement experiment, read from a file beside
// the lists: it is not part of Spillway. Looks at the file system.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "scheduler/placer.h"
#include "scheduler/replay/openb_lists.h"

namespace spillway::scheduler {

// Allocated % of the cluster's GPUs when the demand that came was 100 % and 130 %: means over `seeds` seeds,
// and their standard deviation.
struct PublishedFigures {
  double at_100 = 0, at_130 = 0, sd_at_100 = 0, sd_at_130 = 0;
  int seeds = 0;
};
// By the stem of the list's file ("openb_pod_list_default") and the policy.
using PublishedTable = std::map<std::pair<std::string, Policy>, PublishedFigures>;

// Columns workload, policy ("06-FGD"), n_seeds, alloc_mean_at_100, alloc_mean_at_130, alloc_sd_at_100,
// alloc_sd_at_130. Rows of policies that Spillway does not have are skipped.
[[nodiscard]] Result<PublishedTable> ParsePublishedFigures(const std::string& text,
                                                           const std::string& file_name);

// fgd_published.csv in the folder of the lists or the one above; an empty table where neither has it.
[[nodiscard]] Result<PublishedTable> LoadPublishedFigures(const std::string& data_folder);

// What was published of one list, by policy.
using PublishedByPolicy = std::map<Policy, PublishedFigures>;

// Of what lists of nodes and jobs hold that matters to a placement, in their order; not of names and times.
// `jobs` read with the models of `nodes`.
[[nodiscard]] uint64_t FingerprintOf(const NodeList& nodes, const JobList& jobs);

// A list whose figures were published.
struct PublishedList {
  std::string_view workload;
  uint64_t fingerprint;
};

[[nodiscard]] const std::vector<PublishedList>& OpenbLists();

// The figures of the list that was published for these nodes and objective `fragmentation`; nothing if the
// list, the nodes or the objective are others, whatever the file is called. `lists`: openb's, but in tests.
[[nodiscard]] PublishedByPolicy PublishedOf(const PublishedTable& table, const NodeList& nodes,
                                            const JobList& jobs, Objective objective,
                                            const std::vector<PublishedList>& lists = OpenbLists());

}  // namespace spillway::scheduler
