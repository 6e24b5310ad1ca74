// SPDX-License-Identifier: Apache-2.0
#include "scheduler/replay/published_figures.h"

#include <filesystem>
#include <optional>

#include "base/random.h"
#include "base/yaml/documents.h"
#include "scheduler/replay/csv.h"

namespace spillway::scheduler {
namespace {

std::optional<Policy> PolicyOf(std::string_view published) {
  constexpr std::pair<std::string_view, Policy> kNames[] = {
      {"01-Random", Policy::kRandom},
      {"02-DotProd", Policy::kDotProduct},
      {"03-GpuClustering", Policy::kGpuClustering},
      {"04-GpuPacking", Policy::kGpuPacking},
      {"05-BestFit", Policy::kBestFit},
      {"06-FGD", Policy::kFgd},
  };
  for (const auto& [name, policy] : kNames)
    if (name == published) return policy;
  return std::nullopt;
}

}  // namespace

Result<PublishedTable> ParsePublishedFigures(const std::string& text, const std::string& file_name) {
  Csv csv(text, file_name);
  csv.ReadHeader();
  csv.Need({"workload", "policy", "n_seeds", "alloc_mean_at_100", "alloc_mean_at_130", "alloc_sd_at_100",
            "alloc_sd_at_130"});
  PublishedTable table;
  while (!csv.error() && csv.Next()) {
    const auto policy = PolicyOf(csv.Text("policy"));
    if (!policy) continue;
    PublishedFigures& row = table[{std::string(csv.Text("workload")), *policy}];
    row.at_100 = csv.Real("alloc_mean_at_100", 0, 100);
    row.at_130 = csv.Real("alloc_mean_at_130", 0, 100);
    row.sd_at_100 = csv.Real("alloc_sd_at_100", 0, 100);
    row.sd_at_130 = csv.Real("alloc_sd_at_130", 0, 100);
    row.seeds = static_cast<int>(csv.Number("n_seeds", 1, 1'000'000));
  }
  if (csv.error()) return tl::make_unexpected(*csv.error());
  return table;
}

uint64_t FingerprintOf(const NodeList& nodes, const JobList& jobs) {
  uint64_t hash = 0;
  const auto add = [&](uint64_t value) { hash = spw_mix64(hash * base::SplitMix64::kStep + value + 1); };
  for (const GpuModel& model : nodes.models)
    for (const char letter : model.name + '\n') add(static_cast<unsigned char>(letter));
  for (const Node& node : nodes.nodes)
    for (const int part : {node.cpu_milli, node.memory_mib, node.gpus, node.model})
      add(static_cast<uint64_t>(part));
  for (const TraceJob& one : jobs.jobs) {
    for (const int part : {one.job.cpu_milli, one.job.memory_mib, one.job.gpus, one.job.milli})
      add(static_cast<uint64_t>(part));
    add(one.job.models);
  }
  return hash;
}

const std::vector<PublishedList>& OpenbLists() {
  static const std::vector<PublishedList> lists = {
      {"openb_pod_list_default", 0x555079c3e87d388c},    {"openb_pod_list_gpushare100", 0xef061b74405ab7fb},
      {"openb_pod_list_gpushare40", 0xa741247a1407b2b6}, {"openb_pod_list_gpuspec10", 0x99d312755b849d60},
      {"openb_pod_list_cpu050", 0x26adc8d938a48f7b},     {"openb_pod_list_multigpu20", 0x5f11a87b0f707ae9}};
  return lists;
}

PublishedByPolicy PublishedOf(const PublishedTable& table, const NodeList& nodes, const JobList& jobs,
                              Objective objective, const std::vector<PublishedList>& lists) {
  PublishedByPolicy published;
  if (objective != Objective::kFragmentation) return published;
  const uint64_t fingerprint = FingerprintOf(nodes, jobs);
  for (const PublishedList& list : lists)
    for (const auto& [key, figures] : table)
      if (list.fingerprint == fingerprint && key.first == list.workload) published[key.second] = figures;
  return published;
}

Result<PublishedTable> LoadPublishedFigures(const std::string& data_folder) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(data_folder).lexically_normal();
  for (const fs::path& place : {folder, folder / ".."}) {
    const fs::path file = (place / "fgd_published.csv").lexically_normal();
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    const auto text = yaml::ReadInputFile(file.string());
    if (!text) return tl::make_unexpected(text.error());
    return ParsePublishedFigures(*text, file.string());
  }
  return PublishedTable{};
}

}  // namespace spillway::scheduler
