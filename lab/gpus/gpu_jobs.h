// SPDX-License-Identifier: Apache-2.0
// The file of `spillway lab gpus`: GPU hosts, and jobs that come and go on them, told one by one or taken
// from a trace.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "scheduler/replay/openb_lists.h"

namespace spillway::lab {

struct GpuJob {
  double at_s = 0, for_s = 0;  // as the file says, not compressed
  double share = 1;            // of a GPU
};

struct GpuJobs {
  int hosts = 2, gpus = 4;  // of each host
  double compress = 3600;   // so many times as quick as the file says
  std::vector<GpuJob> jobs;
  std::string source;  // what they are, for a page: "13 jobs", or the list and the window
};

// A stretch of a list of jobs as scheduler/replay/openb_lists.h reads it.
struct TraceWindow {
  std::string list = "default";  // as scheduler::ListFile takes it
  double from_s = 0, for_s = 0;  // in the trace's time
};

// Of the jobs of one GPU, or of a part of one, that run in the window for at least `shortest_s`, every k-th
// in the order of their arrival, k being the least for which `gpus` GPUs are enough for a job each. Those
// that are there before the window begin with it, those that are there after it end with it. `gpus` is at
// least 1.
[[nodiscard]] std::vector<GpuJob> JobsOf(const scheduler::JobList& list, const TraceWindow& window, int gpus,
                                         double shortest_s);

// A trace that the file names is looked for and read. Errors: kBadInput, a line per problem.
[[nodiscard]] Result<GpuJobs> ParseGpuJobs(const std::string& yaml, const std::string& file_name);
[[nodiscard]] Result<GpuJobs> LoadGpuJobs(const std::string& path);

}  // namespace spillway::lab
