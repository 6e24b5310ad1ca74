// SPDX-License-Identifier: Apache-2.0
#include "report/html_page.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "xml_check.h"

namespace spillway::report {
namespace {

Document Demo() {
  Document document("demo", {"Example CPU @ 2.0 GHz", 2, "6.1.0-18-amd64", 7.7}, "v0.1.0-3-g0123456789ab");
  document.SetRounds(3);
  document.AddRow({{"policy", "</script><b>"}, {"p99_ms", 1.5}});
  return document;
}

HtmlPage Page() {
  HtmlPage page("Spillway & the others", "What it shows: a <sweep> over load.");
  page.AddFigure("+22 %", "load before loss", "host-only: 9.1k/s");
  page.AddFigure("1.4 ms", "p99 at full host load");
  page.AddFigure("0", "connections moved");
  Chart chart{"p99 latency by offered load",
              "median of 3 rounds; band: lowest to highest round",
              {"Offered load", "requests/s"},
              {"p99 latency", "ms", true},
              {}};
  chart.series.push_back({"host-only", {}});
  chart.series.push_back({"spillway (p4mite)", {}});
  chart.series.push_back({"spillway (headroom)", {}});
  chart.series.push_back({"M/M/k model", {}, true});
  for (int i = 1; i <= 12; ++i) {
    const double x = 1000.0 * i;
    const double host = 0.4 / std::max(0.004, 1 - x / 9500), spill = 0.45 / std::max(0.004, 1 - x / 11800);
    chart.series[0].points.push_back({x, host, host * 0.85, host * 1.25, i > 9});
    chart.series[1].points.push_back({x, spill, spill * 0.9, spill * 1.2, i > 11});
    chart.series[2].points.push_back({x, spill * 0.8, spill * 0.75, spill * 0.95, false});
    chart.series[3].points.push_back({x, 0.35 / std::max(0.004, 1 - x / 12500)});
  }
  page.AddHeading("Latency");
  page.AddChart(chart);
  Chart second{"Answered requests", "", {"Time", "s"}, {"Answered", "%"}, {}};
  second.series.push_back({"host-only", {}});
  for (int i = 0; i <= 100; ++i) second.series[0].points.push_back({i * 0.1, i > 60 ? 92 + i % 3 : 100.0});
  page.AddChart(second);
  page.AddText("Plain text & a <tag>.");
  page.AddTable("Per level", Table::FromRows(Demo().rows()));
  page.Embed(Demo(), "report.json");
  return page;
}

TEST(HtmlPage, HoldsTheDocumentAndItReadsBack) {
  const std::string html = Page().Render();
  std::smatch found;
  ASSERT_TRUE(std::regex_search(
      html, found, std::regex("<script type=\"application/json\" id=\"document\">([^<]*)</script>")));
  EXPECT_EQ(nlohmann::ordered_json::parse(found[1].str()), Demo().Json());
}

TEST(HtmlPage, LoadsNothing) {
  const std::string html = Page().Render();
  EXPECT_EQ(html.find("src="), std::string::npos);
  EXPECT_EQ(html.find("<link"), std::string::npos);
  EXPECT_EQ(html.find("@import"), std::string::npos);
  EXPECT_EQ(html.find("url("), std::string::npos);
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
}

TEST(HtmlPage, EscapesWhatItIsGiven) {
  const std::string html = Page().Render();
  EXPECT_NE(html.find("<title>Spillway &amp; the others</title>"), std::string::npos);
  EXPECT_EQ(html.find("<sweep>"), std::string::npos);
  EXPECT_EQ(html.find("<tag>"), std::string::npos);
  EXPECT_EQ(html.find("</script><b>"), std::string::npos);
}

TEST(HtmlPage, NestsItsBody) {
  std::string html = Page().Render();
  html = html.substr(html.find("<main>"), html.find("<script") - html.find("<main>"));  // without the foot
  EXPECT_EQ(XmlFault(html + "</main>"), "");
}

TEST(HtmlPage, ShowsFiguresTableChartAndMachine) {
  const std::string html = Page().Render();
  EXPECT_NE(html.find("<b>+22 %</b>load before loss<small>host-only: 9.1k/s</small>"), std::string::npos);
  EXPECT_NE(html.find("<svg "), std::string::npos);
  EXPECT_NE(html.find("<table>"), std::string::npos);
  EXPECT_NE(html.find("Example CPU @ 2.0 GHz, 2 cores, 7.7 GiB, Linux 6.1.0-18-amd64"), std::string::npos);
}

// SPILLWAY_RENDER=folder keeps the page for a look at it.
TEST(HtmlPage, IsWrittenAsOneFile) {
  const char* keep = std::getenv("SPILLWAY_RENDER");
  const auto folder = keep != nullptr ? std::filesystem::path(keep)
                                      : std::filesystem::path(testing::TempDir()) / "spillway-html-page";
  ASSERT_TRUE(Page().Write(folder / "report.html").has_value());
  EXPECT_GT(std::filesystem::file_size(folder / "report.html"), 1000u);
  if (keep == nullptr) std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace spillway::report
