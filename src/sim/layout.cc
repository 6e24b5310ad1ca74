// SPDX-License-Identifier: Apache-2.0
#include "sim/layout.h"

#include <algorithm>
#include <cmath>

namespace spillway::sim {
namespace {

constexpr double kWeightMax = 10'000;  // of the largest capacity, as spillwayd scales them

}  // namespace

Layout MakeLayout(const App& app, bool units_as_servers) {
  Layout layout;
  double largest = 0;
  for (const ServerGroup& group : app.groups)
    for (const UnitProfile& unit : group.units) largest = std::max(largest, unit.capacity);
  for (const ServerGroup& group : app.groups) {
    for (uint32_t s = 0; s < group.count; s++) {
      if (!units_as_servers) layout.first_unit.push_back(static_cast<uint32_t>(layout.units.size()));
      for (uint32_t u = 0; u < group.units.size(); u++) {
        if (units_as_servers) layout.first_unit.push_back(static_cast<uint32_t>(layout.units.size()));
        const double weight = group.units[u].capacity / largest * kWeightMax;
        layout.units.push_back({&group.units[u], static_cast<uint32_t>(layout.first_unit.size()) - 1,
                                units_as_servers ? 0 : u, u,
                                static_cast<uint16_t>(std::max(1.0, std::round(weight)))});
      }
    }
  }
  layout.first_unit.push_back(static_cast<uint32_t>(layout.units.size()));
  return layout;
}

}  // namespace spillway::sim
