// SPDX-License-Identifier: Apache-2.0
// What a search found, as text, JSON document and page. Pure, but for the machine's description.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/diagnosis.h"
#include "planner/search.h"
#include "planner/sensitivity.h"
#include "report/document.h"
#include "report/html_page.h"

namespace spillway::planner {

struct Found {
  const ClusterModel& model;
  Objective objective;
  Answer answer;
  double search_s = 0;  // of the search alone
  std::vector<Binding> binding;
  std::vector<Influence> influences;
  std::vector<Obstacle> obstacles;  // of a question without an answer
  std::optional<Conflict> conflict;
};

// "memory of accelerator nodes (x): 43.1 GB where 40.5 are allowed, 6.4 % over".
[[nodiscard]] std::string Spell(const Check& check);

[[nodiscard]] std::string SearchText(const Found& found);
// Rows: kind (best, baseline, front, infeasible), objective, slowdown, cost_usd, power_w, energy (relative
// to the baseline's), mix. Ratios: cost_saving, energy_saving, candidates, search_s, binding_LIMIT,
// sensitivity_INPUT_less / _more.
[[nodiscard]] report::Document SearchDocument(const Found& found);
[[nodiscard]] report::HtmlPage SearchPage(const Found& found, const report::Document& document);

}  // namespace spillway::planner
