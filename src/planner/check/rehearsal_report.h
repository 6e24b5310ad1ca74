// SPDX-License-Identifier: Apache-2.0
// A rehearsed plan as text and JSON document. Pure, but for the machine's description.
#pragma once

#include <string>

#include "planner/check/rehearsal.h"
#include "report/document.h"

namespace spillway::planner {

[[nodiscard]] std::string RehearsalText(const PlanInput& input, const Mix& mix, const Rehearsal& rehearsal);
// Rows: cluster, policy, rate_rps, planned_rps, simulated_rps, planned_utilisation, simulated_utilisation,
// planned_mean_ms, simulated_mean_ms, simulated_p99_ms, lost. Ratios: planned_slowdown,
// simulated_slowdown_POLICY.
[[nodiscard]] report::Document RehearsalDocument(const PlanInput& input, const Rehearsal& rehearsal);

}  // namespace spillway::planner
