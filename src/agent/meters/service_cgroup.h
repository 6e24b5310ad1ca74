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

  // Its path below the hierarchy of CPU time (cpuacct, else cpu, else v2). nullopt: nobody serves them, or
  // only processes that cannot be looked at. Processes are looked through once for each set of sockets, since
  // that takes milliseconds: asked again before other sockets are bound, the answer is nullopt.
  std::optional<std::string> FindAnew();

 private:
  std::set<uint64_t> BoundSockets() const;  // inodes

  std::vector<ServicePort> services_;
  std::string proc_;
  std::set<uint64_t> looked_for_;
};

}  // namespace spillway::agent
