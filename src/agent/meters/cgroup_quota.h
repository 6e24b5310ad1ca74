// SPDX-License-Identifier: Apache-2.0
// The CPU quota of a unit's control group (v1 and v2), and what is used of it. Files stay open between looks;
// a group that is removed and made anew is found again. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/learner/ration.h"
#include "agent/meters/cpu_meter.h"
#include "agent/meters/service_cgroup.h"
#include "base/error.h"
#include "base/fd.h"

namespace spillway::agent {

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
