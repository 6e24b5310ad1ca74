// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/cpu_meter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <vector>

#include "base/file.h"

namespace spillway::agent {
namespace {

namespace fs = std::filesystem;

// /proc/stat counts in steps of 10 ms; a shorter look would see 0 % or 100 %.
constexpr Duration kShortestLook = std::chrono::milliseconds(10);

Error Unexpected(const std::string& path, const char* expected) {
  return {ErrorCode::kSystem, fmt::format("{}: expected {}", path, expected)};
}

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The figures of one folder of any hierarchy; empty usage: none here.
CgroupFiles Figures(const fs::path& folder) {
  CgroupFiles files;
  if (Exists(folder / "cpuacct.usage")) files.usage = folder / "cpuacct.usage";
  if (Exists(folder / "cpu.cfs_quota_us")) {
    files.quota = folder / "cpu.cfs_quota_us";
    files.period = folder / "cpu.cfs_period_us";
  }
  if (files.usage.empty() && files.quota.empty() && Exists(folder / "cpu.stat")) {
    files.usage = folder / "cpu.stat";
    files.v2 = true;
    if (Exists(folder / "cpu.max")) files.quota = folder / "cpu.max";
  }
  return files;
}

class CpuMeter final : public Meter {
 public:
  CpuMeter(const AgentConfig& config, std::optional<CgroupFiles> cgroup)
      : cgroup_(std::move(cgroup)),
        window_(config.meter.window),
        cpus_(static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN))) {}

  Result<Reading> Read(Time now) override {
    Result<CpuUsage> usage = Usage();
    if (!usage) return tl::make_unexpected(usage.error());
    Reading reading;
    reading.at = now;
    reading.measure = window_.Update(now, *usage);
    return reading;
  }
  Result<CpuUsage> Probe() const { return Usage(); }
  const char* name() const override { return cgroup_ ? "cgroup" : "proc_stat"; }

 private:
  Result<CpuUsage> Usage() const {
    if (cgroup_) return ReadCgroup(*cgroup_, cpus_);
    return base::ReadFile("/proc/stat").and_then([](const std::string& text) {
      return ParseProcStat(text, sysconf(_SC_CLK_TCK));
    });
  }

  std::optional<CgroupFiles> cgroup_;
  CpuWindow window_;
  double cpus_;
};

}  // namespace

Result<CgroupFiles> FindCgroup(const std::string& group, const std::string& root) {
  CgroupFiles found;
  const std::string below = fs::path(group).relative_path();
  std::vector<fs::path> folders = {fs::path(group), fs::path(root) / below};
  for (const char* hierarchy : {"cpu,cpuacct", "cpuacct,cpu", "cpuacct", "cpu", "unified"})
    folders.push_back(fs::path(root) / hierarchy / below);
  // A folder of one v1 hierarchy: its sibling in the other has the other half.
  const std::string relative = fs::path(group).lexically_relative(root);
  if (!relative.empty() && !relative.starts_with("..")) {
    const fs::path rest = fs::path(relative).lexically_relative(*fs::path(relative).begin());
    for (const char* hierarchy : {"cpuacct", "cpu"}) folders.push_back(fs::path(root) / hierarchy / rest);
  }
  for (const fs::path& folder : folders) {
    const CgroupFiles figures = Figures(folder);
    if (!figures.usage.empty() && found.usage.empty()) {
      found.usage = figures.usage;
      found.v2 = figures.v2;
      if (found.v2) found.quota.clear();
    }
    if (!figures.quota.empty() && found.quota.empty() && (found.usage.empty() || figures.v2 == found.v2)) {
      found.quota = figures.quota;
      found.period = figures.period;
    }
    if (found.v2) break;
  }
  if (found.usage.empty())
    return Fail(ErrorCode::kBadInput,
                fmt::format("cgroup {}: expected cpu.stat (v2) or cpuacct.usage (v1) there or below {}",
                            group, root));
  return found;
}

Result<CpuUsage> ReadCgroup(const CgroupFiles& files, double machine_cpus) {
  CpuUsage usage{.used_ns = -1, .cpus = machine_cpus};
  auto text = base::ReadFile(files.usage);
  if (!text) return tl::make_unexpected(text.error());
  std::istringstream in(*text);
  if (files.v2) {
    std::string key;
    for (double value; in >> key >> value;)
      if (key == "usage_usec") usage.used_ns = value * 1000;
  } else if (!(in >> usage.used_ns)) {
    usage.used_ns = -1;
  }
  if (usage.used_ns < 0) return tl::make_unexpected(Unexpected(files.usage, "the CPU time used"));
  const auto limit = ReadLimit(files);
  if (!limit) return tl::make_unexpected(limit.error());
  if (*limit) usage.cpus = std::min((*limit)->quota_us / (*limit)->period_us, machine_cpus);
  return usage;
}

Result<std::optional<CpuLimit>> ReadLimit(const CgroupFiles& files) {
  if (files.quota.empty()) return std::nullopt;
  auto text = base::ReadFile(files.quota);
  if (!text) return tl::make_unexpected(text.error());
  if (!files.v2) {
    auto period = base::ReadFile(files.period);
    if (!period) return tl::make_unexpected(period.error());
    *text += " " + *period;
  }
  // v2 says "max" for no quota, v1 says -1.
  std::istringstream in(*text);
  CpuLimit limit;
  if (in >> limit.quota_us >> limit.period_us && limit.quota_us > 0 && limit.period_us > 0) return limit;
  return std::nullopt;
}

Result<CpuUsage> ParseProcStat(const std::string& text, long ticks_per_second) {
  std::istringstream in(text);
  std::string line, name;
  if (!std::getline(in, line) || !line.starts_with("cpu "))
    return tl::make_unexpected(Unexpected("/proc/stat", "a first line that begins with cpu"));
  std::istringstream fields(line);
  fields >> name;
  double used = 0;
  // user nice system idle iowait irq softirq steal; guest time is within user.
  int count = 0;
  for (double ticks; count < 8 && fields >> ticks; count++)
    if (count != 3 && count != 4) used += ticks;
  if (count < 4) return tl::make_unexpected(Unexpected("/proc/stat", "at least four fields"));
  int cpus = 0;
  while (std::getline(in, line) && line.starts_with("cpu")) cpus++;
  return CpuUsage{used * 1e9 / static_cast<double>(ticks_per_second), static_cast<double>(std::max(cpus, 1))};
}

std::optional<double> CpuWindow::Update(Time now, const CpuUsage& usage) {
  if (!last_) {
    last_ = usage;
    last_look_ = now;
    return std::nullopt;
  }
  const Duration elapsed = now - last_look_;
  if (elapsed < kShortestLook || usage.cpus <= 0) return std::nullopt;
  const double share = std::clamp(
      (usage.used_ns - last_->used_ns) / (static_cast<double>(elapsed.count()) * usage.cpus), 0.0, 1.0);
  smoothed_ += (share - smoothed_) *
               (1 - std::exp(-static_cast<double>(elapsed.count()) / static_cast<double>(window_.count())));
  last_ = usage;
  last_look_ = now;
  return smoothed_;
}

Result<std::unique_ptr<Meter>> OpenCpuMeter(const AgentConfig& config) {
  std::optional<CgroupFiles> cgroup;
  if (!config.meter.cgroup.empty()) {
    auto files = FindCgroup(config.meter.cgroup, "/sys/fs/cgroup");
    if (!files) return tl::make_unexpected(yaml::At(config.places, "meter.cgroup", files.error()));
    cgroup = *files;
  }
  auto meter = std::make_unique<CpuMeter>(config, std::move(cgroup));
  // Fails now rather than at the first look.
  if (auto first = meter->Probe(); !first) return tl::make_unexpected(first.error());
  return meter;
}

}  // namespace spillway::agent
