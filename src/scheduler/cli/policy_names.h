// SPDX-License-Identifier: Apache-2.0
// The scheduler's policies as an option names them.
#pragma once

#include <string>
#include <vector>

#include "scheduler/placer.h"

namespace spillway::command {

// `names`, then those of all policies.
inline std::vector<std::string> PolicyNames(std::vector<std::string> names = {}) {
  for (const scheduler::Policy policy : scheduler::kPolicies) names.emplace_back(ToString(policy));
  return names;
}

}  // namespace spillway::command
