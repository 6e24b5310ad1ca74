// SPDX-License-Identifier: Apache-2.0
// The verbs of spillway sched, and the policies' names that their options take.
#pragma once

#include <string>
#include <vector>

#include "command/context.h"
#include "scheduler/placer.h"

namespace CLI {
class App;
}

namespace spillway::command {

// spillway sched: the scheduler of GPU slices on its own.
void AddSchedVerbs(CLI::App& app, Context& context);

// spillway sched replay: the experiments on lists of jobs.
void AddReplay(CLI::App& sched, Context& context);

// spillway sched optimal: the online heuristic beside an exact solver.
void AddOptimal(CLI::App& sched, Context& context);

// `names`, then those of all policies.
inline std::vector<std::string> PolicyNames(std::vector<std::string> names = {}) {
  for (const scheduler::Policy policy : scheduler::kPolicies) names.emplace_back(ToString(policy));
  return names;
}

}  // namespace spillway::command
