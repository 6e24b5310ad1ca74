// SPDX-License-Identifier: Apache-2.0
// The openb lists of nodes and jobs (Alibaba clusterdata, GPU v2023): where they are, and their CSV. Looks at
// the file system and the environment; keeps no state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "scheduler/cluster.h"

namespace spillway::scheduler {

// Where the openb lists are. They are not part of Spillway.

// `given` if that says one; else the folder in SPILLWAY_OPENB; else ./data/openb, ./shared/data/openb or
// ../shared/data/openb, whichever is there first. Errors: kBadInput, naming the places that were looked at.
[[nodiscard]] Result<std::string> FindDataFolder(const std::string& given);

// "default" as FOLDER/openb_pod_list_default.csv; what has a '/' or ends in .csv, and what names no list but
// a file that is there, as it is. Errors: kBadInput, with the names of the lists that are there; also where
// `data_option` names no folder and none is needed.
[[nodiscard]] Result<std::string> ListFile(const std::string& list, const std::string& data_option);
// FOLDER/openb_node_list_gpu_node.csv, or `given` if that says one.
[[nodiscard]] Result<std::string> NodeFile(const std::string& given, const std::string& data_option);

// Node and pod lists as CSV, in the columns of the Alibaba openb data (clusterdata GPU v2023).

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
