// SPDX-License-Identifier: Apache-2.0
#include "paper_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/table.h"

namespace spillway::lab {
namespace {

struct Count {
  int compared = 0, matched = 0;
  void Add(std::optional<bool> matches) {
    compared += matches.has_value();
    matched += matches.value_or(false);
  }
};

nlohmann::ordered_json OrNull(const std::optional<bool>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}
nlohmann::ordered_json OrNull(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

std::string Word(const std::optional<bool>& matches) { return !matches ? "-" : *matches ? "match" : "no"; }

std::string Summary(const char* who, const Count& count) {
  return fmt::format("{} matches {} of {} claims that it can be compared by.\n", who, count.matched,
                     count.compared);
}

}  // namespace

report::Document PaperDocument(const std::vector<PaperRow>& rows, int repeats) {
  report::Document document("lab.paper");
  document.SetRounds(repeats);
  Count all, simulator, lab;
  for (const PaperRow& row : rows) {
    all.Add(row.Matches());
    simulator.Add(row.simulator.matches);
    lab.Add(row.lab.matches);
    document.AddRow({{"id", row.id},
                     {"figure", row.figure},
                     {"claim", row.claim},
                     {"paper", row.paper},
                     {"simulator", OrNull(row.simulator.figure)},
                     {"simulator_matches", OrNull(row.simulator.matches)},
                     {"lab", OrNull(row.lab.figure)},
                     {"lab_matches", OrNull(row.lab.matches)},
                     {"match", OrNull(row.Matches())},
                     {"reason", OrNull(row.reason)}});
  }
  document.SetRatio("claims", static_cast<double>(rows.size()));
  for (const auto& [name, count] :
       {std::pair{std::string("claims"), all}, {"simulator", simulator}, {"lab", lab}}) {
    document.SetRatio(name + "_compared", count.compared);
    document.SetRatio(name + "_matched", count.matched);
  }
  return document;
}

std::string PaperText(const std::vector<PaperRow>& rows, bool with_lab) {
  std::string text, figure;
  Count simulator, lab;
  for (const PaperRow& row : rows) {
    simulator.Add(row.simulator.matches);
    lab.Add(row.lab.matches);
    if (row.figure != figure) text += fmt::format("{}{}\n", figure.empty() ? "" : "\n", figure = row.figure);
    text += fmt::format("  {}: {}\n    paper      {}\n", row.id, row.claim, row.paper);
    const auto side = [&](const char* name, const PaperFinding& found) {
      text += fmt::format("    {:<10} {}  [{}]\n", name, found.figure.empty() ? "-" : found.figure,
                          Word(found.matches));
    };
    side("simulator", row.simulator);
    if (with_lab) side("lab", row.lab);
    if (!row.reason.empty()) text += fmt::format("    why        {}\n", row.reason);
  }
  text += "\n" + Summary("The simulator", simulator);
  text += with_lab ? Summary("The lab", lab) : "The lab was left out (--sim-only).\n";
  return text;
}

}  // namespace spillway::lab
