// SPDX-License-Identifier: Apache-2.0
#include "scheduler/replay/openb_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <vector>

#include "base/print.h"
#include "base/yaml/documents.h"
#include "scheduler/replay/csv.h"

namespace spillway::scheduler {

namespace {

namespace fs = std::filesystem;

constexpr const char* kUsualPlaces[] = {"data/openb", "shared/data/openb", "../shared/data/openb"};
constexpr const char* kPrefix = "openb_pod_list_";
constexpr const char* kNodes = "openb_node_list_gpu_node.csv";
constexpr const char* kSource =
    "public traces: github.com/alibaba/clusterdata, folder cluster-trace-gpu-v2023/csv";

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// "cpu050, default, ...": the lists of a folder.
std::string ListsIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().stem().string();
    if (name.starts_with(kPrefix) && entry.path().extension() == ".csv")
      names.push_back(name.substr(std::string(kPrefix).size()));
  }
  std::sort(names.begin(), names.end());
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<std::string> FindDataFolder(const std::string& given) {
  if (!given.empty()) {
    if (IsFolder(given)) return given;
    return Fail(ErrorCode::kBadInput, fmt::format("--data {}: expected a folder with the openb lists ({})",
                                                  base::Printable(given), kSource));
  }
  if (const char* set = std::getenv("SPILLWAY_OPENB"); set != nullptr && *set != '\0') {
    if (IsFolder(set)) return std::string(set);
    return Fail(ErrorCode::kBadInput,
                fmt::format("SPILLWAY_OPENB={}: expected a folder with the openb lists ({})",
                            base::Printable(set), kSource));
  }
  for (const char* place : kUsualPlaces)
    if (IsFolder(place)) return std::string(place);
  return Fail(
      ErrorCode::kBadInput,
      fmt::format(
          "expected the folder with the openb lists ({}), or --nodes or "
          "--cluster with the nodes: there is none in SPILLWAY_OPENB, nor at {}; --data names another",
          kSource, fmt::join(kUsualPlaces, ", ")));
}

Result<std::string> ListFile(const std::string& list, const std::string& data_option) {
  const bool is_path = list.find('/') != std::string::npos || list.ends_with(".csv");
  auto folder = FindDataFolder(data_option);
  if (!folder && !data_option.empty()) return folder;
  if (is_path) return list;
  std::error_code ignored;
  if (folder) {
    const std::string path = fmt::format("{}/{}{}.csv", *folder, kPrefix, list);
    if (fs::exists(path, ignored)) return path;
  }
  if (fs::exists(list, ignored) && !fs::is_directory(list, ignored)) return list;
  if (!folder) return folder;
  return Fail(ErrorCode::kBadInput,
              fmt::format("list {}: expected a file, or a list in {}: {}", base::Printable(list),
                          base::Printable(*folder), base::Printable(ListsIn(*folder))));
}

Result<std::string> NodeFile(const std::string& given, const std::string& data_option) {
  if (!given.empty()) return given;
  auto folder = FindDataFolder(data_option);
  if (!folder) return folder;
  return *folder + "/" + kNodes;
}

namespace {

constexpr int64_t kMaxMilli = 100'000'000;

// Of gpu_spec, "T4|A10".
void ReadModels(Csv& csv, const std::vector<GpuModel>& models, Job& job, JobList& list) {
  const std::string_view text = csv.Text("gpu_spec");
  std::set<std::string_view> absent;
  for (const auto name : Split(text, '|')) {
    if (name.empty()) csv.Refuse("gpu_spec", "expected models separated by |, got " + yaml::Excerpt(text));
    const auto at = std::find_if(models.begin(), models.end(),
                                 [wanted = name](const GpuModel& model) { return model.name == wanted; });
    job.models |= at == models.end() ? kAbsentModel : ModelSet{1} << (at - models.begin());
    if (at == models.end()) absent.insert(name);
  }
  for (const auto name : absent) ++list.absent_models[std::string(name)];
}

}  // namespace

Result<NodeList> ParseNodeList(const std::string& text, const std::string& file_name) {
  Csv csv(text, file_name);
  csv.ReadHeader();
  csv.Need({"sn", "cpu_milli", "memory_mib", "gpu", "model"});
  NodeList list;
  while (!csv.error() && csv.Next()) {
    Node node;
    node.name = csv.Text("sn");
    node.cpu_milli = static_cast<int>(csv.Number("cpu_milli", 0, kMaxMilli));
    node.memory_mib = static_cast<int>(csv.Number("memory_mib", 0, kMaxMilli));
    node.gpus = static_cast<int>(csv.Number("gpu", 0, kMaxGpus));
    const std::string_view model = csv.Text("model");
    auto at = std::find_if(list.models.begin(), list.models.end(),
                           [&](const GpuModel& one) { return one.name == model; });
    if (at == list.models.end()) {
      if (list.models.size() == kMaxModels)
        csv.Refuse("model", fmt::format("expected at most {} models", kMaxModels));
      list.models.push_back(ModelByName(model));
      at = list.models.end() - 1;
    }
    node.model = static_cast<int>(at - list.models.begin());
    list.nodes.push_back(std::move(node));
  }
  if (list.nodes.empty()) csv.Refuse("", "expected one node at least");
  if (std::none_of(list.nodes.begin(), list.nodes.end(), [](const Node& node) { return node.gpus > 0; }))
    csv.Refuse("gpu", "expected one GPU at least, on any node");
  if (csv.error()) return tl::make_unexpected(*csv.error());
  return list;
}

Result<JobList> ParseJobList(const std::string& text, const std::string& file_name,
                             const std::vector<GpuModel>& models) {
  Csv csv(text, file_name);
  csv.ReadHeader();
  csv.Need({"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"});
  JobList list;
  list.name = std::filesystem::path(file_name).stem().string();
  const bool has_times = csv.Has("creation_time") && csv.Has("deletion_time");
  while (!csv.error() && csv.Next()) {
    TraceJob one;
    one.job.cpu_milli = static_cast<int>(csv.Number("cpu_milli", 0, kMaxMilli));
    one.job.memory_mib = static_cast<int>(csv.Number("memory_mib", 0, kMaxMilli));
    one.job.gpus = static_cast<int>(csv.Number("num_gpu", 0, kMaxGpus));
    one.job.milli = 0;
    if (one.job.gpus > 0)
      one.job.milli = static_cast<int>(csv.Number("gpu_milli", 1, kWholeGpu));
    else if (!csv.Text("gpu_milli").empty())
      csv.Number("gpu_milli", 0, kWholeGpu);  // says nothing of a job without GPUs
    if (one.job.gpus > 1 && one.job.milli != kWholeGpu)
      csv.Refuse("gpu_milli",
                 fmt::format("expected 1000 of a job of {} GPUs, got {}", one.job.gpus, one.job.milli));
    if (csv.Has("gpu_spec") && !csv.Text("gpu_spec").empty()) ReadModels(csv, models, one.job, list);
    const bool timed = has_times && !csv.Text("creation_time").empty() && !csv.Text("deletion_time").empty();
    if (has_times && !timed && list.untimed_line == 0) list.untimed_line = csv.line();
    if (timed) {
      one.arrives_s = csv.Number("creation_time", 0, kMaxSeconds);
      one.leaves_s = csv.Number("deletion_time", 0, kMaxSeconds);
      if (one.leaves_s < one.arrives_s)
        csv.Refuse("deletion_time",
                   fmt::format("expected {} (creation_time) or later, got {}", one.arrives_s, one.leaves_s));
    }
    list.jobs.push_back(one);
  }
  list.timed = has_times && list.untimed_line == 0;
  if (list.jobs.empty()) csv.Refuse("", "expected one job at least");
  if (csv.error()) return tl::make_unexpected(*csv.error());
  return list;
}

Result<NodeList> LoadNodeList(const std::string& path) {
  const auto text = yaml::ReadInputFile(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseNodeList(*text, path);
}

Result<JobList> LoadJobList(const std::string& path, const std::vector<GpuModel>& models) {
  const auto text = yaml::ReadInputFile(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseJobList(*text, path, models);
}

}  // namespace spillway::scheduler
