// SPDX-License-Identifier: Apache-2.0
#include "lab/gpus/gpu_jobs.h"

#include "base/yaml/documents.h"
#include "base/yaml/scalars.h"

namespace spillway::lab {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;
using namespace std::chrono_literals;

Result<GpuJobs> ParseGpuJobs(const std::string& yaml, const std::string& file_name) {
  GpuJobs jobs;
  const auto read = yaml::ReadDocument(yaml, file_name, [&](Problems& problems, const Field& root) {
    MapReader top(problems, root, {"hosts", "gpus", "compress", "jobs"});
    Take(jobs.hosts, top.Find("hosts"), [&](const Field& f) { return yaml::ReadInteger(problems, f, 1, 8); });
    Take(jobs.gpus, top.Find("gpus"), [&](const Field& f) { return yaml::ReadInteger(problems, f, 1, 64); });
    Take(jobs.compress, top.Find("compress"),
         [&](const Field& f) { return yaml::ReadNumber(problems, f, 1, 1e6); });
    const Field* list = top.Need("jobs", "a list of jobs");
    if (list == nullptr) return;
    for (const Field& entry : yaml::ReadList(problems, *list, "a list of jobs")) {
      MapReader map(problems, entry, {"at", "for", "share"});
      GpuJob job;
      for (auto [into, key] : {std::pair(&job.at_s, "at"), {&job.for_s, "for"}})
        if (const Field* f = map.Need(key, "a time such as 90m"))
          if (const auto time = yaml::ReadDuration(problems, *f, 0ms, 10'000h))
            *into = std::chrono::duration<double>(*time).count();
      Take(job.share, map.Need("share", "a share of a GPU, 0.001 to 1"),
           [&](const Field& f) { return yaml::ReadNumber(problems, f, 0.001, 1); });
      jobs.jobs.push_back(job);
    }
    if (jobs.jobs.empty() || jobs.jobs.size() > 1000)
      problems.Add(list->line, list->path, "expected 1 to 1000 jobs");
  });
  if (!read) return tl::make_unexpected(read.error());
  return jobs;
}

Result<GpuJobs> LoadGpuJobs(const std::string& path) {
  const auto text = yaml::ReadInputFile(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseGpuJobs(*text, path);
}

}  // namespace spillway::lab
