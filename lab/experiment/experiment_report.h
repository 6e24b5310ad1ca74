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

// An experiment and what it gave; of a figure with several apps, one of them.
struct Part {
  ExperimentSpec spec;
  Results results;
};

// Columns policy, load_pct, rps, p50_ms, p99_ms, answered_pct: medians over the rounds; beside them, where
// there are some, what was predicted.
report::Table ResultTable(const Results& results);
// The same rows with the rounds' extremes (`_min`, `_max`), and ratios. Rows of a figure's apps begin with
// `app`, and their ratios' names with the app's.
report::Document ResultDocument(const std::string& name, const std::vector<Part>& parts);
report::HtmlPage ResultPage(const std::string& name, const std::vector<Part>& parts,
                            const report::Document& document);
// Each part's table, and what its rows say, a line each.
std::string ResultText(const std::vector<Part>& parts);
std::string FindingsText(const ExperimentSpec& spec, const Results& results);

}  // namespace spillway::lab
