// SPDX-License-Identifier: Apache-2.0
// Rows of the scheduler's reports as a table for readers: a column has one number of decimals, by its unit.
// The documents have all that was computed.
#pragma once

#include <cmath>

#include <nlohmann/json_fwd.hpp>

#include "report/table.h"

namespace spillway::scheduler {

[[nodiscard]] report::Table ReportTable(const nlohmann::ordered_json& rows);

// To a step-th; never -0.
[[nodiscard]] inline double Rounded(double value, double steps) {
  return std::round(value * steps) / steps + 0.0;
}

}  // namespace spillway::scheduler
