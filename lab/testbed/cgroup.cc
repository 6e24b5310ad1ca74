// SPDX-License-Identifier: Apache-2.0
#include "cgroup.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/file.h"

namespace spillway::lab {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const std::string& path) { return base::ReadFile(path).value_or(""); }

bool HasWord(const std::string& text, char separator, const std::string& word) {
  std::istringstream in(text);
  std::string part;
  while (std::getline(in, part, separator))
    if (part == word) return true;
  return false;
}

Result<void> WriteTo(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text << std::flush;
  if (out) return {};
  return Fail(ErrorCode::kSystem, fmt::format("write {} to {}: {}", text, path, strerror(errno)));
}

std::string FolderOf(const std::string& root, const std::string& testbed) {
  return fmt::format("{}/spillway-lab-{}", root, testbed);
}

Result<void> MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return {};
  return Fail(ErrorCode::kSystem, fmt::format("create control group {}: {}", path, strerror(errno)));
}

}  // namespace

std::optional<CgroupRoot> FindCpuController(
    const std::string& mounts, const std::function<std::string(const std::string&)>& v2_controllers) {
  std::istringstream lines(mounts);
  std::string line;
  std::optional<CgroupRoot> v2;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string device, path, type, options;
    words >> device >> path >> type >> options;
    if (type == "cgroup" && HasWord(options, ',', "cpu")) return CgroupRoot{path, 1};
    std::string controllers = type == "cgroup2" ? v2_controllers(path) : "";
    while (!controllers.empty() && controllers.back() == '\n') controllers.pop_back();
    if (HasWord(controllers, ' ', "cpu")) v2 = CgroupRoot{path, 2};
  }
  return v2;
}

std::string FindCpuAccounts(const std::string& mounts, const CgroupRoot& controller) {
  if (controller.version != 1) return "";
  std::istringstream lines(mounts);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string device, path, type, options;
    words >> device >> path >> type >> options;
    if (type == "cgroup" && HasWord(options, ',', "cpuacct")) return path == controller.path ? "" : path;
  }
  return "";
}

Result<Cgroups> Cgroups::Open(const std::string& testbed) {
  const std::string mounts = ReadAll("/proc/mounts");
  const auto root = FindCpuController(
      mounts, [](const std::string& path) { return ReadAll(path + "/cgroup.controllers"); });
  if (!root)
    return Fail(ErrorCode::kUnavailable,
                "cpu_quota: no control group hierarchy with the cpu controller is mounted (v1 or v2)");
  const std::string accounts = FindCpuAccounts(mounts, *root);
  return Cgroups(*root, FolderOf(root->path, testbed), accounts.empty() ? "" : FolderOf(accounts, testbed));
}

Result<std::vector<std::string>> Cgroups::Make(const std::string& label,
                                               const std::optional<CpuQuota>& quota) {
  if (auto made = MakeFolder(folder_); !made) return tl::make_unexpected(made.error());
  if (root_.version == 2) {
    // A child may set what its parent hands down; both writes are no-ops where it already does.
    for (const std::string& parent : {root_.path, folder_})
      if (auto on = WriteTo(parent + "/cgroup.subtree_control", "+cpu"); !on)
        return tl::make_unexpected(on.error());
  }
  const std::string group = folder_ + "/" + label;
  Result<void> set = MakeFolder(group);
  if (set)
    set = root_.version == 2 ? WriteTo(folder_ + "/cpu.weight", "10000")
                             : WriteTo(folder_ + "/cpu.shares", "262144");
  if (set && quota && root_.version == 2)
    set = WriteTo(group + "/cpu.max", fmt::format("{} {}", quota->quota.count(), quota->period.count()));
  if (set && quota && root_.version == 1) {
    set = WriteTo(group + "/cpu.cfs_period_us", fmt::format("{}", quota->period.count()));
    if (set) set = WriteTo(group + "/cpu.cfs_quota_us", fmt::format("{}", quota->quota.count()));
  }
  std::vector<std::string> folders = {group};
  if (quota && !accounts_.empty()) {
    folders.push_back(accounts_ + "/" + label);
    if (set) set = MakeFolder(accounts_);
    if (set) set = MakeFolder(folders.back());
  }
  if (!set) return tl::make_unexpected(set.error());
  return folders;
}

void Cgroups::Remove(const std::string& folder) {
  const fs::path root = fs::path(folder).parent_path();
  const std::string accounts = FindCpuAccounts(ReadAll("/proc/mounts"), {root, 1});
  std::error_code ignored;
  for (const fs::path& each : {fs::path(folder), fs::path(accounts) / fs::path(folder).filename()}) {
    if (!each.is_absolute() || !fs::is_directory(each, ignored)) continue;
    for (const auto& entry : fs::directory_iterator(each, ignored))
      if (entry.is_directory(ignored)) rmdir(entry.path().c_str());
    rmdir(each.c_str());
  }
}

}  // namespace spillway::lab
