// SPDX-License-Identifier: Apache-2.0
// Network namespaces as `ip netns add` makes them (named by bind mounts in /run/netns), links between
// them, and work done inside one. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan.h"

namespace spillway::lab {

[[nodiscard]] Result<void> AddNetns(const std::string& name);
void DeleteNetns(const std::string& name);  // no error if there is none

// Runs `work` on a thread of its own inside the namespace. `work` starts no tied processes.
[[nodiscard]] Result<void> Inside(const std::string& netns, const std::function<Result<void>()>& work);

// /proc/sys/net/KEY, of the calling thread's namespace.
[[nodiscard]] Result<void> SetSysctl(const std::string& key, const std::string& value);

// Links, addresses, routes, sysctls and offloads of the whole plan; its namespaces exist.
[[nodiscard]] Result<void> Connect(const Plan& plan);

// The unit's end of its link goes down, and with it its routes and IPv6 addresses; the switch's end loses its
// carrier. RestoreLink brings all of it back; no error if it is there.
[[nodiscard]] Result<void> CutLink(const UnitPlan& unit);
[[nodiscard]] Result<void> RestoreLink(const Plan& plan, const UnitPlan& unit);

// Whether a socket is bound to the port, as the namespace of process `pid` shows it.
bool PortBound(pid_t pid, const model::ServicePort& port);

}  // namespace spillway::lab
