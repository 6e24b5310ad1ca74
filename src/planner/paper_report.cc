// SPDX-License-Identifier: Apache-2.0
#include "planner/paper_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/table.h"

namespace spillway::planner {
namespace {

double Matching(const std::vector<PaperRow>& rows) {
  return static_cast<double>(
      std::count_if(rows.begin(), rows.end(), [](const PaperRow& row) { return row.match; }));
}

}  // namespace

std::string PaperText(const std::vector<PaperRow>& rows) {
  report::Table table(
      {{"id", "id"}, {"claim", "claim"}, {"paper", "paper"}, {"value", "value"}, {"match", "match"}});
  std::string reasons;
  for (const PaperRow& row : rows) {
    table.AddRow({row.id, row.claim, row.paper, row.value, row.match ? "yes" : "no"});
    if (!row.reason.empty())
      reasons += fmt::format("{} {}: {}\n    {}\n", row.id, row.claim, row.paper, row.reason);
  }
  return fmt::format(
      "{}\n{:g} of {} rows match to the printed digits.\n\nWhy the others differ, and what is "
      "noteworthy:\n{}",
      table.Text(), Matching(rows), rows.size(), reasons);
}

report::Document PaperDocument(const std::vector<PaperRow>& rows) {
  report::Document document("plan.paper");
  for (const PaperRow& row : rows)
    document.AddRow({{"id", row.id},
                     {"claim", row.claim},
                     {"paper", row.paper},
                     {"value", row.value},
                     {"match", row.match},
                     {"reason", row.reason},
                     {"formula", row.formula}});
  document.SetRatio("rows", static_cast<double>(rows.size()));
  document.SetRatio("rows_matching", Matching(rows));
  return document;
}

}  // namespace spillway::planner
