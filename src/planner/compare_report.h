// SPDX-License-Identifier: Apache-2.0
// A comparison of servers with SmartNICs as text, JSON document and page. Pure, but for the machine's
// description.
#pragma once

#include <string>
#include <vector>

#include "planner/compare.h"
#include "report/document.h"
#include "report/html_page.h"
#include "report/table.h"

namespace spillway::planner {

[[nodiscard]] report::Table CompareTable(const std::vector<Comparison>& comparisons);
[[nodiscard]] std::string CompareText(const PlanInput& input, const std::vector<Comparison>& comparisons);
// Rows: phi, slowdown, its parts (cpu, shuffle, storage, accelerator, stall), cost, cost_with_fabric,
// cost_with_right_sized_fabric, energy, energy_with_fabric, fits (limits of nodes), broken.
[[nodiscard]] report::Document CompareDocument(const PlanInput& input,
                                               const std::vector<Comparison>& comparisons);
// Charts of cost, energy and slowdown over phi.
[[nodiscard]] report::HtmlPage ComparePage(const PlanInput& input, const std::vector<Comparison>& comparisons,
                                           const report::Document& document);

}  // namespace spillway::planner
