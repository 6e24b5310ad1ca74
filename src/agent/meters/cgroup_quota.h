// SPDX-License-Identifier: Apache-2.0
// The control group of a unit, and its CPU quota.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/config.h"
#include "agent/learner/ration.h"
#include "agent/meters/cpu_meter.h"
#include "base/error.h"
#include "base/fd.h"

namespace spillway::agent {

// The control group of whoever serves the unit's ports, found by the sockets that are bound to them in this
// network namespace. Not thread-safe.
class ServiceCgroup {
 public:
  // proc: /proc, or a test's copy.
  explicit ServiceCgroup(std::vector<ServicePort> services, std::string proc = "/proc")
      : services_(std::move(services)), proc_(std::move(proc)) {}

  // Its path below the hierarchy of CPU time (cpuacct, else cpu, else v2). nullopt: nobody serves them,
  // processes of several groups do (warned of), or only such that cannot be looked at. Looks through all
  // processes, which takes milliseconds to seconds: not for each look at a meter.
  [[nodiscard]] std::optional<std::string> Find() const;

 private:
  std::set<uint64_t> BoundSockets() const;  // inodes

  std::vector<ServicePort> services_;
  std::string proc_;
};

// The CPU quota of a unit's control group (v1 and v2), and what is used of it. Files stay open between looks;
// a group that is removed and made anew is found again. Not thread-safe.
class CgroupQuota {
 public:
  static constexpr const char* kRoot = "/sys/fs/cgroup";

  // `group`, `root`: as of FindCgroup. Errors (kBadInput): no such group, or not one with accounts of CPU
  // time.
  [[nodiscard]] static Result<std::unique_ptr<CgroupQuota>> Open(const std::string& group,
                                                                 const std::string& root = kRoot);
  // Of the group of whoever serves the ports, once there is somebody.
  [[nodiscard]] static std::unique_ptr<CgroupQuota> OfService(ServiceCgroup service,
                                                              const std::string& root = kRoot);

  // nullopt: it has no quota now, or cannot be read now. Whether it has one is asked again each second; which
  // group it is, until it is found, and when it has gone, at growing intervals up to a minute.
  std::optional<QuotaReading> Read(std::chrono::nanoseconds now);

 private:
  CgroupQuota(std::string group, std::string root) : group_(std::move(group)), root_(std::move(root)) {}
  Result<void> OpenFiles();
  bool ReadLimits();
  bool FindLimits(std::chrono::nanoseconds now);
  bool FindGroup(std::chrono::nanoseconds now);

  std::string group_, root_;  // group_ empty: not found yet
  std::optional<ServiceCgroup> service_;
  std::chrono::nanoseconds search_at_{0}, search_again_{0};
  CgroupFiles files_;
  bool open_ = false;         // the files, and of the group as it is now
  uint64_t opened_ = 0;       // times
  base::Fd usage_, periods_;  // v2: one file has both, which is usage_
  std::optional<std::chrono::nanoseconds> limits_read_;
  double quota_ns_ = 0, period_ns_ = 0;  // quota 0: none
};

}  // namespace spillway::agent
