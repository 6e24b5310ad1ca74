// SPDX-License-Identifier: Apache-2.0
// An experiment's results as table, JSON document (its keys are named here) and page, and what they say in
// words (experiment_text.cc). Pure, but for the machine's description.
#pragma once

#include <string>
#include <vector>

#include "calibration.h"
#include "experiment_spec.h"
#include "findings.h"
#include "report/document.h"
#include "report/html_page.h"
#include "report/table.h"

namespace spillway::lab {

struct Results {
  Calibration calibration;
  std::vector<Row> rows;
  std::vector<Finding> findings;
  bool realtime_watch = true;  // MachineWatch::realtime
  bool interrupted = false;    // levels are missing, or rounds of the last
};

// An experiment and what it gave; of a figure with several apps, one of them.
struct Part {
  ExperimentSpec spec;
  Results results;
};

// A row per load and policy: percentiles over all slices, their intervals, the comparisons in words; beside
// them, where there are some, what was predicted.
report::Table ResultTable(const Results& results);
// The same rows as flat objects, and ratios: docs/lab.md lists the keys. Rows of a figure's apps begin with
// `app`, and their ratios' names with the app's.
report::Document ResultDocument(const std::string& name, const std::vector<Part>& parts);
report::HtmlPage ResultPage(const std::string& name, const std::vector<Part>& parts,
                            const report::Document& document);

// Each part's table, and what its rows say, a line each.
std::string ResultText(const std::vector<Part>& parts);
std::string FindingsText(const ExperimentSpec& spec, const Results& results);
// What ran and how, for the page.
std::string HowMeasured(const ExperimentSpec& spec, const Results& results);
// The rate at a load, as intended; "907 requests/s, of which the client sent 97.1 %" if that is much less.
std::string RateText(const ExperimentSpec& spec, const Results& results, const std::string& policy,
                     double load_pct);
// What was played of each policy at a load: the most at any; "6 slices (3 at 80 %)".
int MostSlices(const std::vector<Row>& rows);
std::string SlicesText(const std::vector<Row>& rows);
// "answers what host-only loses at 90 %, 95 %; nowhere worse": a policy against the baseline, in one line.
std::string Conclusion(const ExperimentSpec& spec, const Results& results, const Finding& finding);
// "40 %, 60 %".
std::string Loads(const std::vector<double>& loads);

}  // namespace spillway::lab
