// SPDX-License-Identifier: Apache-2.0
#include "cgroup.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

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

Result<Cgroups> Cgroups::Open(const std::string& testbed) {
  const auto root = FindCpuController(
      ReadAll("/proc/mounts"), [](const std::string& path) { return ReadAll(path + "/cgroup.controllers"); });
  if (!root)
    return Fail(ErrorCode::kUnavailable,
                "cpu_quota: no control group hierarchy with the cpu controller is mounted (v1 or v2)");
  return Cgroups(*root, fmt::format("{}/spillway-lab-{}", root->path, testbed));
}

Result<std::string> Cgroups::Make(const std::string& label, const std::optional<CpuQuota>& quota) {
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
  if (!set) return tl::make_unexpected(set.error());
  return group;
}

void Cgroups::Remove(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.is_directory(ignored)) rmdir(entry.path().c_str());
  rmdir(folder.c_str());
}

}  // namespace spillway::lab
