// SPDX-License-Identifier: Apache-2.0
// A sweep's results as text (one line for each app, load and policy; its columns are here), JSON document and
// page. Pure, but for the machine's description.
#pragma once

#include <string>
#include <vector>

#include "report/document.h"
#include "report/html_page.h"
#include "report/table.h"
#include "sim/findings.h"
#include "sim/sweep.h"

namespace spillway::sim {

struct Results {
  const Scenario& scenario;
  const SweepResult& sweep;
  Findings findings;
};

// What one table and one chart show.
struct View {
  std::string app, arrivals, reports;
};

// p99 in ms by axis value (rows) and policy (columns); where more than is tolerated was late or not answered,
// how much: "18.80 (13 % late)", or in short "13 % late".
report::Table P99Table(const Results& results, const View& view, bool is_short = false);
// What is late in that table, and which key says so; empty without rows.
std::string LateLine(const Results& results, const View& view);
// The axis value up to which each policy (columns) held in each sweep (rows).
report::Table EnduranceTable(const Results& results);
// The points where a headroom policy does worst beside the best of its rivals, worst first.
report::Table WorstTable(const Results& results, const Verdict& verdict);
// All tables, then what they say.
std::string ResultText(const Results& results);
// What the rows say, a line each.
std::vector<std::string> FindingLines(const Results& results);
// Rows: app, arrivals, reports, the axis by its name, policy, p50_ms, p99_ms, p999_ms, mean_ms, loss, rps,
// share_UNIT..., tried (null: nothing to try).
report::Document ResultDocument(const Results& results);
report::HtmlPage ResultPage(const Results& results, const report::Document& document);

}  // namespace spillway::sim
