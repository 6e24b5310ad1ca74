// SPDX-License-Identifier: Apache-2.0
// The control group of whoever serves the unit's ports, found by the sockets that are bound to them in this
// network namespace. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/config.h"

namespace spillway::agent {

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

}  // namespace spillway::agent
