// SPDX-License-Identifier: Apache-2.0
// Which of the units that fail their checks lose new flows. Pure.
//
// Checks may be wrong about many units at once (a fault of the switch's own network, a bad deployment of what
// is asked), so of each service's units at most half are ejected, the longest failing first; and where all of
// them fail, none is: fail-open. A unit without a known next hop gets nothing in any case and counts as one
// of the half.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plan.h"

namespace spillway::switching {

struct FailingState {
  std::chrono::steady_clock::time_point since;
  bool move = false;  // its established flows are placed anew
};

// By UnitName.
using FailingUnits = std::map<std::string, FailingState>;

// How a service stands. Its members: the units of its pool that its policy may use and no operator has taken
// out.
struct ServiceEjection {
  uint32_t members = 0, failing = 0, ejected = 0;
  bool fail_open = false;  // all of them fail, or cannot be reached
};

struct Ejection {
  std::set<uint16_t> units;                         // by id
  std::map<std::string, ServiceEjection> services;  // by name
};

// `is_resolved`: whether a unit's next hop is known, by id.
Ejection ChooseEjected(const model::Config& config, const std::vector<PlannedUnit>& units,
                       const FailingUnits& failing, const std::function<bool(uint16_t)>& is_resolved);

}  // namespace spillway::switching
