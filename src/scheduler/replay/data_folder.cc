// SPDX-License-Identifier: Apache-2.0
#include "scheduler/replay/data_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/print.h"

namespace spillway::scheduler {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsualPlaces[] = {"data/openb", "shared/data/openb", "../shared/data/openb"};
constexpr const char* kPrefix = "openb_pod_list_";
constexpr const char* kNodes = "openb_node_list_gpu_node.csv";

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
    return Fail(ErrorCode::kBadInput,
                fmt::format("--data {}: expected a folder with the openb lists", base::Printable(given)));
  }
  if (const char* set = std::getenv("SPILLWAY_OPENB"); set != nullptr && *set != '\0') {
    if (IsFolder(set)) return std::string(set);
    return Fail(ErrorCode::kBadInput, fmt::format("SPILLWAY_OPENB={}: expected a folder with the openb lists",
                                                  base::Printable(set)));
  }
  for (const char* place : kUsualPlaces)
    if (IsFolder(place)) return std::string(place);
  return Fail(
      ErrorCode::kBadInput,
      fmt::format(
          "expected the folder with the openb lists (clusterdata GPU v2023), or --nodes or "
          "--cluster with the nodes: there is none in SPILLWAY_OPENB, nor at {}; --data names another",
          fmt::join(kUsualPlaces, ", ")));
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

}  // namespace spillway::scheduler
