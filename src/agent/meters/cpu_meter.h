// SPDX-License-Identifier: Apache-2.0
// Share of the CPU time in use: of the machine, or of a cgroup against its quota (v1 and v2).
// Reading files and judging them are apart; time is an argument. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "agent/config.h"
#include "agent/meters/reading.h"

namespace spillway::agent {

struct CpuUsage {
  double used_ns = 0;  // cumulative CPU time
  double cpus = 0;     // CPUs it may use: the quota, or the machine's count
};

// Where a cgroup's figures are: resolved once.
struct CgroupFiles {
  std::string usage;          // cpuacct.usage (v1) or cpu.stat (v2)
  std::string quota, period;  // v1: cpu.cfs_quota_us, cpu.cfs_period_us; v2: cpu.max, ""
  bool v2 = false;
};

struct CpuLimit {  // CPU time in each period
  double quota_us = 0, period_us = 0;
};

// `group`: a cgroup's folder, or its path below every hierarchy ("/spillway/unit0"). `root`:
// /sys/fs/cgroup, or a test's copy.
[[nodiscard]] Result<CgroupFiles> FindCgroup(const std::string& group, const std::string& root);
[[nodiscard]] Result<CpuUsage> ReadCgroup(const CgroupFiles& files, double machine_cpus);
// nullopt: it has no quota.
[[nodiscard]] Result<std::optional<CpuLimit>> ReadLimit(const CgroupFiles& files);
// From the text of /proc/stat.
[[nodiscard]] Result<CpuUsage> ParseProcStat(const std::string& text, long ticks_per_second);

// Usage, look by look -> smoothed share.
class CpuWindow {
 public:
  explicit CpuWindow(Duration window) : window_(window) {}
  // nullopt: too soon after the last look to tell.
  std::optional<double> Update(Time now, const CpuUsage& usage);

 private:
  Duration window_;
  std::optional<CpuUsage> last_;
  Time last_look_{0};
  double smoothed_ = 0;
};

[[nodiscard]] Result<std::unique_ptr<Meter>> OpenCpuMeter(const AgentConfig& config);

}  // namespace spillway::agent
