// SPDX-License-Identifier: Apache-2.0
#include "scheduler/published_figures.h"

#include <filesystem>
#include <optional>

#include "model/documents.h"
#include "scheduler/csv.h"

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

Result<PublishedTable> LoadPublishedFigures(const std::string& data_folder) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(data_folder).lexically_normal();
  for (const fs::path& place : {folder, folder / ".."}) {
    const fs::path file = (place / "fgd_published.csv").lexically_normal();
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    const auto text = model::ReadInputFile(file.string());
    if (!text) return tl::make_unexpected(text.error());
    return ParsePublishedFigures(*text, file.string());
  }
  return PublishedTable{};
}

}  // namespace spillway::scheduler
