// SPDX-License-Identifier: Apache-2.0
// Which terms make up an answer: cost, power, time and memory of a mix beside the baseline's. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/cluster_model.h"

namespace spillway::planner {

[[nodiscard]] std::string ExplainText(const ClusterModel& model, const Mix& mix);
// Rows: term, part (cost_usd, power_w, time, limit), baseline, plan, formula.
[[nodiscard]] nlohmann::ordered_json ExplainRows(const ClusterModel& model, const Mix& mix);

}  // namespace spillway::planner
