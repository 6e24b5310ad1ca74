// SPDX-License-Identifier: Apache-2.0
#include "report/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "xml_check.h"

namespace spillway::report {
namespace {

int Count(const std::string& text, const std::string& what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

Chart Latency() {
  Chart chart{"p99 <latency> & load", "", {"Offered load", "req/s"}, {"p99", "ms", true}, {}};
  chart.series.push_back(
      {"host-only", {{1000, 1, 0.8, 1.3}, {2000, 2, 1.5, 2.4}, {3000, 90, 80, 120, true}}});
  chart.series.push_back({"spillway", {{1000, 1}, {2000, 1.2}, {3000, 1.4}}});
  return chart;
}

TEST(Chart, IsWellFormedWithTextEscaped) {
  const std::string svg = RenderSvg(Latency());
  EXPECT_EQ(XmlFault(svg), "");
  EXPECT_NE(svg.find("p99 &lt;latency&gt; &amp; load"), std::string::npos);
}

TEST(Chart, ASeriesLikeAnotherHasItsColour) {
  Chart chart = Latency();
  chart.series.push_back({"modelled", {{1000, 1}, {2000, 2}}, true, 0});
  const std::string svg = RenderSvg(chart);
  EXPECT_EQ(Count(svg, "spw-line spw-s0\""), 4) << "two series, each with its line in the legend";
  EXPECT_EQ(Count(svg, "spw-line spw-s2\""), 0);
  EXPECT_EQ(Count(svg, "stroke-dasharray"), 2);
}

TEST(Chart, NamesEverySeriesOnceAndBothAxesWithUnits) {
  const std::string svg = RenderSvg(Latency());
  EXPECT_EQ(Count(svg, ">host-only</text>"), 1);
  EXPECT_EQ(Count(svg, ">spillway</text>"), 1);
  EXPECT_EQ(Count(svg, ">Offered load [req/s]</text>"), 1);
  EXPECT_EQ(Count(svg, ">p99 [ms]</text>"), 1);
}

TEST(Chart, MarksLossWithACrossAndExplainsIt) {
  Chart chart = Latency();
  EXPECT_EQ(Count(RenderSvg(chart), "class=\"spw-loss"), 2);  // the point and the legend
  EXPECT_EQ(Count(RenderSvg(chart), ">requests lost</text>"), 1);
  chart.series[0].points[2].loss = false;
  EXPECT_EQ(Count(RenderSvg(chart), "class=\"spw-loss"), 0);
  EXPECT_EQ(Count(RenderSvg(chart), ">requests lost</text>"), 0);
}

TEST(Chart, DrawsABandOnlyWhereThereIsOne) { EXPECT_EQ(Count(RenderSvg(Latency()), "class=\"spw-band"), 1); }

TEST(Chart, InterruptsTheLineAtAGap) {
  Chart chart{"t", "", {"x", ""}, {"y", ""}, {{"s", {{1, 1}, {2, 2}, {3, NAN}, {4, 2}, {5, 1}}}}};
  const std::string svg = RenderSvg(chart);
  std::smatch found;
  ASSERT_TRUE(std::regex_search(svg, found, std::regex("overflow=\"hidden\">\n<path[^>]* d=\"([^\"]*)\"")));
  EXPECT_EQ(Count(found[1], "M"), 2);
  EXPECT_EQ(Count(found[1], "L"), 2);
}

TEST(Chart, PlacesLargerValuesHigherAndFurtherRight) {
  const std::string svg = RenderSvg(Latency());
  std::regex circle("<circle[^>]*cx=\"([0-9.]+)\" cy=\"([0-9.]+)\"[^>]*><title>host-only");
  std::vector<std::pair<double, double>> at;
  for (std::sregex_iterator i(svg.begin(), svg.end(), circle), end; i != end; ++i)
    at.emplace_back(std::stod((*i)[1]), std::stod((*i)[2]));
  ASSERT_EQ(at.size(), 2u);  // the third is a cross
  EXPECT_LT(at[0].first, at[1].first);
  EXPECT_GT(at[0].second, at[1].second);
}

TEST(Chart, ShowsPointsBeyondAFixedRangeAtTheEdge) {
  Chart chart = Latency();
  chart.series[0].points[2].loss = false;
  chart.y.max = 10;
  EXPECT_EQ(Count(RenderSvg(chart), "class=\"spw-open"), 1);
}

TEST(Chart, HasADarkSchemeAndNoExternalResource) {
  const std::string svg = RenderSvg(Latency());
  EXPECT_NE(svg.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_EQ(Count(svg, "http"), 1);  // the namespace's name
  EXPECT_EQ(Count(svg, "url("), 0);
  EXPECT_EQ(Count(svg, "href"), 0);
  EXPECT_EQ(Count(svg, "nan"), 0);
  EXPECT_EQ(Count(svg, "inf"), 0);
}

TEST(Chart, IsDrawnWithoutAnyDataToo) {
  EXPECT_EQ(XmlFault(RenderSvg(Chart{"empty", "", {}, {"y", "", true}, {}})), "");
  EXPECT_EQ(XmlFault(RenderSvg(Chart{"gaps", "", {}, {"y", "", true}, {{"s", {{1, NAN}, {2, -1}}}}})), "");
}

}  // namespace
}  // namespace spillway::report
