// SPDX-License-Identifier: Apache-2.0
// Node and pod lists as CSV, in the columns of the Alibaba openb data (clusterdata GPU v2023). Reads files;
// keeps no state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "scheduler/cluster.h"

namespace spillway::scheduler {

struct TraceJob {
  Job job;
  int64_t arrives_s = 0, leaves_s = 0;
};

struct NodeList {
  std::vector<Node> nodes;
  std::vector<GpuModel> models;  // in the order of their first node
};

struct JobList {
  std::string name;
  std::vector<TraceJob> jobs;
  bool timed = false;    // every job has a creation_time and a deletion_time
  int untimed_line = 0;  // the first that has not, where the list has such columns
  // Models that jobs name and `models` does not know, and how many jobs do.
  std::map<std::string, int> absent_models;
};

inline constexpr int64_t kMaxSeconds = 1'000'000'000'000;  // of times in a list

// Columns sn, cpu_milli, memory_mib, gpu, model, found by their names. Errors: kBadInput,
// "file:line: column: expected what, got what".
[[nodiscard]] Result<NodeList> ParseNodeList(const std::string& text, const std::string& file_name);
[[nodiscard]] Result<NodeList> LoadNodeList(const std::string& path);

// Columns name, cpu_milli, memory_mib, num_gpu, gpu_milli; gpu_spec (models, separated by |), creation_time
// and deletion_time where the list has them; a cell without a time is no mistake, as not all want times.
// Models that `models` does not know are kAbsentModel.
[[nodiscard]] Result<JobList> ParseJobList(const std::string& text, const std::string& file_name,
                                           const std::vector<GpuModel>& models);
[[nodiscard]] Result<JobList> LoadJobList(const std::string& path, const std::vector<GpuModel>& models);

}  // namespace spillway::scheduler
