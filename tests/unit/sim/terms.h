// SPDX-License-Identifier: Apache-2.0
// What several tests of the simulator say.
#pragma once

#include "sim/scenario/scenario.h"
#include "sim/station.h"

namespace spillway::sim {

inline constexpr Time kMs = 1'000'000;

inline PolicyChoice UnitPolicy(const char* name, spw_unit_policy policy) {
  PolicyChoice choice;
  choice.name = name;
  choice.unit_policy = policy;
  return choice;
}

}  // namespace spillway::sim
