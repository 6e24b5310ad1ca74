// SPDX-License-Identifier: Apache-2.0
// The cluster file of `spillway sched place`: nodes, models, rules and the jobs that run. docs/scheduler.md
// describes it. Reads a file; keeps no state.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "scheduler/cluster.h"

namespace spillway::scheduler {

struct ClusterFile {
  Cluster cluster;                      // with its jobs in place; ids in the file's order
  std::vector<Job> jobs;                // that run: what usually comes
  std::vector<std::string> job_names;   // of the same jobs; empty: it has none
  std::map<std::string, int> tenants;   // the numbers of those that are named
  std::vector<std::string> notes = {};  // what is no mistake, but may be one; a line each, with its place
  // A tenant whom the file does not name has a number of its own.
  int TenantOf(const std::string& name) const;
};

// Errors: kBadInput, a line per problem, "file:line: key: expected what, got what". `nodes_elsewhere`: the
// file may be without nodes.
[[nodiscard]] Result<ClusterFile> ParseClusterFile(const std::string& text, const std::string& file_name,
                                                   bool nodes_elsewhere = false);
[[nodiscard]] Result<ClusterFile> LoadClusterFile(const std::string& path, bool nodes_elsewhere = false);

// "T4|A10" as a set of the cluster's models. One that is known but not there is kAbsentModel; an unknown one
// is an error that lists those there are.
[[nodiscard]] Result<ModelSet> ParseModels(const std::string& text, const std::vector<GpuModel>& models);

}  // namespace spillway::scheduler
