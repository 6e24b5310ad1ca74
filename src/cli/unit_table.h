// SPDX-License-Identifier: Apache-2.0
// The units of GET /v1/units as a table, for `show units` and `top`. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "report/table.h"

namespace spillway::command {

report::Table UnitTable(const nlohmann::json& units);

// The same with rates per second between two answers `seconds` apart; a unit that is new has none.
report::Table UnitRateTable(const nlohmann::json& before, const nlohmann::json& after, double seconds);

}  // namespace spillway::command
