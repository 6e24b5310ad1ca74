// SPDX-License-Identifier: Apache-2.0
// Rows of the scheduler's reports as a table for readers: a column has one number of decimals, by its unit.
// The documents have all that was computed.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "report/table.h"

namespace spillway::scheduler {

[[nodiscard]] report::Table ReportTable(const nlohmann::ordered_json& rows);

}  // namespace spillway::scheduler
