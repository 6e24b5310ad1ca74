// SPDX-License-Identifier: Apache-2.0
// What a search found, as text, JSON document and page. Pure, but for the machine's description.
#pragma once

#include <string>

#include "planner/inquiry.h"
#include "report/document.h"
#include "report/html_page.h"

namespace spillway::planner {

// "memory of accelerator nodes (x): 43.1 GB where 40.5 are allowed, 6.4 % over".
[[nodiscard]] std::string Spell(const Check& check);

[[nodiscard]] std::string SearchText(const Found& found);
// Rows: kind (best, baseline, front, infeasible), objective, slowdown, cost_usd, power_w, energy (relative
// to the baseline's), mix. Ratios: cost_saving, energy_saving, candidates, search_s, binding_LIMIT,
// sensitivity_INPUT_less / _more; interrupted (1) of a search that was: `best` is then the best found so far.
[[nodiscard]] report::Document SearchDocument(const Found& found);
[[nodiscard]] report::HtmlPage SearchPage(const Found& found, const report::Document& document);

}  // namespace spillway::planner
