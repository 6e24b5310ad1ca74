// SPDX-License-Identifier: Apache-2.0
// What a GPU host does so that it has what the controller wants: the difference between the two, as steps.
// Pure; the same again once the steps are done is nothing.
//
// Slices are given back before others are made, and a slice before its executor: a step may be taken only
// when all before it of the same GPU are done, so `Steps` names a GPU's making only once nothing of it is
// ending.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/controller/controller.h"

namespace spillway::scheduler {

// Of one instance on the host.
enum class HostPhase : uint8_t {
  kSlice,    // its slice is made, no program runs
  kRunning,  // its executor runs
  kEnding,   // it was told to end
  kFailed,   // it ended unasked, or could not be started; slice, if any, is there
};

struct HostInstance {
  WantedInstance wanted;
  HostPhase phase = HostPhase::kSlice;
};

struct Step {
  enum class Kind : uint8_t { kMakeSlice, kStart, kEnd, kDropSlice };
  Kind kind = Kind::kMakeSlice;
  WantedInstance instance;
};

// The steps that can be taken now, in order.
[[nodiscard]] std::vector<Step> Steps(const std::vector<WantedInstance>& wanted,
                                      const std::vector<HostInstance>& has);

}  // namespace spillway::scheduler
