// SPDX-License-Identifier: Apache-2.0
#include "lab/gpus/gpu_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "base/paths.h"
#include "base/yaml/documents.h"
#include "base/yaml/scalars.h"
#include "scheduler/replay/openb_lists.h"

namespace spillway::lab {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;
using namespace std::chrono_literals;

namespace {

// Executors take a fraction of a second to begin.
constexpr double kShortestJobS = 1;

double ReadSeconds(Problems& problems, const MapReader& map, const char* key) {
  const Field* field = map.Need(key, "a time such as 90m");
  if (field == nullptr) return 0;
  const auto time = yaml::ReadDuration(problems, *field, 0ms, 10'000h);
  return time ? std::chrono::duration<double>(*time).count() : 0;
}

std::vector<GpuJob> ReadJobs(Problems& problems, const Field& field) {
  std::vector<GpuJob> jobs;
  for (const Field& entry : yaml::ReadList(problems, field, "a list of jobs")) {
    const MapReader map(problems, entry, {"at", "for", "share"});
    GpuJob job{ReadSeconds(problems, map, "at"), ReadSeconds(problems, map, "for")};
    Take(job.share, map.Need("share", "a share of a GPU, 0.001 to 1"),
         [&](const Field& f) { return yaml::ReadNumber(problems, f, 0.001, 1); });
    jobs.push_back(job);
  }
  if (jobs.empty() || jobs.size() > 1000) problems.Add(field.line, field.path, "expected 1 to 1000 jobs");
  return jobs;
}

void ReadTrace(Problems& problems, const Field& field, const std::string& file_name, GpuJobs& jobs) {
  TraceWindow window;
  const MapReader map(problems, field, {"list", "from", "for"});
  Take(window.list, map.Find("list"),
       [&](const Field& f) { return yaml::ReadText(problems, f, "the name of a list, or a path"); });
  window.from_s = ReadSeconds(problems, map, "from");
  window.for_s = ReadSeconds(problems, map, "for");
  if (window.list.find('/') != std::string::npos || window.list.ends_with(".csv"))
    window.list = base::AbsolutePath(std::filesystem::path(file_name).parent_path() / window.list);
  const auto list = scheduler::ListFile(window.list, "").and_then([](const std::string& file) {
    return scheduler::LoadJobList(file, {});
  });
  if (!list) return problems.Add(field.line, field.path, list.error().message);
  if (!list->timed)
    return problems.Add(field.line, field.path + ".list",
                        "expected jobs with creation_time and deletion_time");
  jobs.jobs = JobsOf(*list, window, jobs.hosts * jobs.gpus, kShortestJobS * jobs.compress);
  jobs.source = fmt::format("{} jobs of the list {}, {:g} h from {:g} h on", jobs.jobs.size(), list->name,
                            window.for_s / 3600, window.from_s / 3600);
  if (jobs.jobs.empty()) problems.Add(field.line, field.path, "expected a window with jobs in it");
}

// In the order of their arrival.
size_t MostAtOnce(const std::vector<GpuJob>& jobs) {
  std::multiset<double> ends;  // of those that run
  size_t most = 0;
  for (const GpuJob& job : jobs) {
    ends.erase(ends.begin(), ends.upper_bound(job.at_s));
    ends.insert(job.at_s + job.for_s);
    most = std::max(most, ends.size());
  }
  return most;
}

}  // namespace

std::vector<GpuJob> JobsOf(const scheduler::JobList& list, const TraceWindow& window, int gpus,
                           double shortest_s) {
  std::vector<GpuJob> all;
  for (const scheduler::TraceJob& each : list.jobs) {
    const double begin = std::max(0.0, static_cast<double>(each.arrives_s) - window.from_s);
    const double end = std::min(window.for_s, static_cast<double>(each.leaves_s) - window.from_s);
    if (each.job.gpus == 1 && begin < window.for_s && end - begin >= shortest_s)
      all.push_back({begin, end - begin, static_cast<double>(each.job.milli) / scheduler::kWholeGpu});
  }
  std::stable_sort(all.begin(), all.end(), [](const GpuJob& a, const GpuJob& b) { return a.at_s < b.at_s; });
  for (size_t step = 1;; ++step) {
    std::vector<GpuJob> some;
    for (size_t i = 0; i < all.size(); i += step) some.push_back(all[i]);
    if (MostAtOnce(some) <= static_cast<size_t>(gpus)) return some;
  }
}

Result<GpuJobs> ParseGpuJobs(const std::string& yaml, const std::string& file_name) {
  GpuJobs jobs;
  const auto read = yaml::ReadDocument(yaml, file_name, [&](Problems& problems, const Field& root) {
    const MapReader top(problems, root, {"hosts", "gpus", "compress", "jobs", "trace"});
    Take(jobs.hosts, top.Find("hosts"), [&](const Field& f) { return yaml::ReadInteger(problems, f, 1, 8); });
    Take(jobs.gpus, top.Find("gpus"), [&](const Field& f) { return yaml::ReadInteger(problems, f, 1, 64); });
    Take(jobs.compress, top.Find("compress"),
         [&](const Field& f) { return yaml::ReadNumber(problems, f, 1, 1e6); });
    const Field *list = top.Find("jobs"), *trace = top.Find("trace");
    if ((list == nullptr) == (trace == nullptr)) return problems.Add("jobs", "expected jobs, or a trace");
    if (trace != nullptr) return ReadTrace(problems, *trace, file_name, jobs);
    jobs.jobs = ReadJobs(problems, *list);
    jobs.source = fmt::format("{} jobs", jobs.jobs.size());
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
