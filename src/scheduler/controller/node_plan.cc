// SPDX-License-Identifier: Apache-2.0
#include "scheduler/controller/node_plan.h"

#include <algorithm>
#include <set>

namespace spillway::scheduler {
namespace {

// A number alone may be another fleet's: of a controller whose state was lost, or is an old copy. What failed
// may be known by nothing else, and waits for the controller.
bool IsThat(const HostInstance& one, const WantedInstance& wanted) {
  if (one.wanted.instance != wanted.instance) return false;
  return one.phase == HostPhase::kFailed ||
         (one.wanted.place == wanted.place && one.wanted.model.name == wanted.model.name &&
          one.wanted.model.program == wanted.model.program &&
          one.wanted.model.host_program == wanted.model.host_program);
}

}  // namespace

std::vector<Step> Steps(const std::vector<WantedInstance>& wanted, const std::vector<HostInstance>& has) {
  std::vector<Step> steps;
  std::set<std::string> ending;  // GPUs on which something is still to go
  for (const HostInstance& one : has) {
    const bool is_wanted = std::any_of(wanted.begin(), wanted.end(),
                                       [&](const WantedInstance& other) { return IsThat(one, other); });
    if (is_wanted && one.phase != HostPhase::kEnding) continue;
    ending.insert(one.wanted.place.gpu);
    if (one.phase == HostPhase::kRunning) steps.push_back({Step::Kind::kEnd, one.wanted});
    if (one.phase == HostPhase::kSlice || one.phase == HostPhase::kFailed)
      steps.push_back({Step::Kind::kDropSlice, one.wanted});
  }
  for (const WantedInstance& want : wanted) {
    const auto at = std::find_if(has.begin(), has.end(), [&](const HostInstance& one) {
      return one.wanted.instance == want.instance;
    });
    if (at == has.end()) {
      if (ending.count(want.place.gpu) == 0) steps.push_back({Step::Kind::kMakeSlice, want});
    } else if (at->phase == HostPhase::kSlice && IsThat(*at, want)) {
      steps.push_back({Step::Kind::kStart, want});
    }
  }
  return steps;
}

}  // namespace spillway::scheduler
