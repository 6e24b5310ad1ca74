// SPDX-License-Identifier: Apache-2.0
// An app's servers and units, numbered. Plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/scenario/scenario.h"

namespace spillway::sim {

struct Layout {
  struct Unit {
    const UnitProfile* profile;
    uint32_t server;  // of this layout
    uint32_t index;   // within its server
    uint32_t column;  // index within its server as the scenario has it, also when units are servers
    uint16_t weight;  // as the data plane has it
  };
  std::vector<Unit> units;
  std::vector<uint32_t> first_unit;  // per server, and one past the last

  uint32_t servers() const { return static_cast<uint32_t>(first_unit.size()) - 1; }
  uint32_t UnitsOf(uint32_t server) const { return first_unit[server + 1] - first_unit[server]; }
};

// Points into `app`. units_as_servers: each unit is a server of its own.
[[nodiscard]] Layout MakeLayout(const App& app, bool units_as_servers);

}  // namespace spillway::sim
