// SPDX-License-Identifier: Apache-2.0
// A report as one HTML file that opens offline: summary figures, text, tables, charts, and the JSON
// document behind them, embedded and downloadable. Loads nothing (its own policy forbids it). Not
// thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "chart.h"
#include "document.h"
#include "table.h"
#include "timeline.h"

namespace spillway::report {

class HtmlPage {
 public:
  // `lead`: one or two sentences under the title on what is shown.
  explicit HtmlPage(std::string title, std::string lead = "");

  // A figure to take away, shown large at the top: ("+22 %", "load before loss", "host-only: 9.1k/s").
  void AddFigure(std::string value, std::string label, std::string note = "");
  // The rest appears in the order of the calls. All texts are plain text, escaped here.
  void AddHeading(const std::string& text);
  void AddText(const std::string& text);
  void AddChart(const Chart& chart);
  void AddTimeline(const Timeline& timeline);
  void AddTable(const std::string& caption, const Table& table);
  // The document to embed; `file_name` is what the download is called. Its machine, commit and rounds
  // become the page's foot.
  void Embed(const Document& document, std::string file_name);

  [[nodiscard]] std::string Render() const;
  [[nodiscard]] Result<void> Write(const std::string& path) const;

 private:
  std::string title_, lead_;
  std::string figures_, body_;
  std::string json_, file_name_, foot_;
};

}  // namespace spillway::report
