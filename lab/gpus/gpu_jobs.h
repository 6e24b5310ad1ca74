// SPDX-License-Identifier: Apache-2.0
// The file of `spillway lab gpus`: GPU hosts, and jobs that come and go on them. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace spillway::lab {

struct GpuJob {
  double at_s = 0, for_s = 0;  // as the file says, not compressed
  double share = 1;            // of a GPU
};

struct GpuJobs {
  int hosts = 2, gpus = 4;  // of each host
  double compress = 3600;   // so many times as quick as the file says
  std::vector<GpuJob> jobs;
};

// Errors: kBadInput, a line per problem.
[[nodiscard]] Result<GpuJobs> ParseGpuJobs(const std::string& yaml, const std::string& file_name);
[[nodiscard]] Result<GpuJobs> LoadGpuJobs(const std::string& path);

}  // namespace spillway::lab
