// SPDX-License-Identifier: Apache-2.0
// An experiment's results as table, JSON document and page. Pure, but for the machine's description.
#pragma once

#include <string>
#include <vector>

#include "experiment_spec.h"
#include "findings.h"
#include "report/document.h"
#include "report/html_page.h"
#include "report/table.h"
#include "sweep.h"

namespace spillway::lab {

struct Results {
  Calibration calibration;
  std::vector<Row> rows;
  std::vector<Verdict> verdicts;
};

// Columns policy, load_pct, rps, p50_ms, p99_ms, answered_pct: medians over the rounds.
report::Table ResultTable(const Results& results);
// The same rows with the rounds' extremes (`_min`, `_max`), and ratios.
report::Document ResultDocument(const ExperimentSpec& spec, const Results& results);
report::HtmlPage ResultPage(const ExperimentSpec& spec, const Results& results,
                            const report::Document& document);
// What the rows say, a line each.
std::string FindingsText(const ExperimentSpec& spec, const Results& results);

}  // namespace spillway::lab
