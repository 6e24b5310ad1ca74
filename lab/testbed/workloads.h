// SPDX-License-Identifier: Apache-2.0
// The servers that answer on units: their configuration files and command lines. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "plan.h"

namespace spillway::lab {

struct WorkloadPlan {
  std::map<std::string, std::string> files;
  std::optional<ProcessPlan> process;  // nullopt: the unit answers nothing
};

// `config` holds the services by now; in dsr-l2 a server listens on their VIPs as well.
WorkloadPlan PlanWorkload(const TestbedSpec& spec, const model::Config& config, const UnitPlan& unit,
                          const Paths& paths);

// Requests that the unit holds, in service or waiting, before it drops one.
uint32_t QueueLimitOf(const UnitSpec& unit);

}  // namespace spillway::lab
