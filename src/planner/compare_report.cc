// SPDX-License-Identifier: Apache-2.0
#include "planner/compare_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace spillway::planner {
namespace {

using Figure = double (*)(const Comparison&);

std::string Broken(const Comparison& one) {
  std::string text;
  for (const Check& check : one.broken) {
    const std::string word = ToString(check.limit);
    if (text.find(word) == std::string::npos) text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

report::Series LineOf(const char* name, const std::vector<Comparison>& comparisons, Figure figure,
                      bool dashed) {
  report::Series series;
  series.name = name;
  series.dashed = dashed;
  for (const Comparison& one : comparisons) series.points.push_back({one.phi, figure(one)});
  return series;
}

report::Chart ChartOf(const std::string& title, const std::string& y, std::vector<report::Series> series) {
  report::Chart chart;
  chart.title = title;
  chart.x = {"phi", "SmartNICs per server"};
  chart.y = {y, "", false, 0.0};
  chart.series = std::move(series);
  return chart;
}

// A reference line.
report::Series Even(const char* name, const std::vector<Comparison>& comparisons) {
  return LineOf(
      name, comparisons, [](const Comparison&) { return 1.0; }, true);
}

std::string Lead(const PlanInput& input) {
  const Workload& w = input.workload;
  return fmt::format(
      "The traditional cluster: {}. Every server is replaced by phi x {}, which carry the same devices "
      "together, on the same fabric.",
      Describe(input.catalogue, w.baseline), input.catalogue.nodes[w.compare_node].name);
}

}  // namespace

report::Table CompareTable(const std::vector<Comparison>& comparisons) {
  report::Table table({{"phi", "phi", 0},
                       {"slowdown", "slowdown", 2},
                       {"cost", "cost", 2},
                       {"cost_with_fabric", "with fabric", 2},
                       {"cost_with_right_sized_fabric", "right-sized", 2},
                       {"energy", "energy", 2},
                       {"energy_with_fabric", "with fabric", 2},
                       {"broken", "does not fit"}});
  for (const Comparison& one : comparisons)
    table.AddRow({one.phi, one.slowdown, one.cost, one.cost_with_fabric, one.cost_with_right_sized_fabric,
                  one.energy, one.energy_with_fabric,
                  one.broken.empty() ? report::Cell() : report::Cell(Broken(one))});
  return table;
}

std::string CompareText(const PlanInput& input, const std::vector<Comparison>& comparisons) {
  return fmt::format(
      "{}: {}\n\n{}\nCost and energy: of the traditional cluster over this one, more than 1 is a saving. "
      "Slowdown: of this one, less than 1 is faster.\n",
      input.workload.name, Lead(input), CompareTable(comparisons).Text());
}

report::Document CompareDocument(const PlanInput& input, const std::vector<Comparison>& comparisons) {
  report::Document document("plan.compare." + input.workload.name);
  for (const Comparison& one : comparisons)
    document.AddRow({{"phi", one.phi},
                     {"slowdown", one.slowdown},
                     {"cpu", one.time.cpu},
                     {"shuffle", one.time.shuffle},
                     {"storage", one.time.storage},
                     {"accelerator", one.time.accelerator},
                     {"stall", one.time.stall},
                     {"cost", one.cost},
                     {"cost_with_fabric", one.cost_with_fabric},
                     {"cost_with_right_sized_fabric", one.cost_with_right_sized_fabric},
                     {"energy", one.energy},
                     {"energy_with_fabric", one.energy_with_fabric},
                     {"fits", one.broken.empty()},
                     {"broken", Broken(one)}});
  return document;
}

report::HtmlPage ComparePage(const PlanInput& input, const std::vector<Comparison>& comparisons,
                             const report::Document& document) {
  report::HtmlPage page("Spillway planner: servers or SmartNICs for " + input.workload.name, Lead(input));
  // The fewest SmartNICs that save as much: where energy does not depend on phi, rounding would choose.
  const double most =
      std::max_element(comparisons.begin(), comparisons.end(), [](const auto& a, const auto& b) {
        return a.energy < b.energy;
      })->energy;
  const auto best = std::find_if(comparisons.begin(), comparisons.end(),
                                 [&](const Comparison& one) { return one.energy >= most * (1 - 1e-9); });
  page.AddFigure(fmt::format("{:.2f}x", best->energy), fmt::format("less energy at phi {:g}", best->phi),
                 fmt::format("slowdown {:.2f}, {:.2f}x cheaper", best->slowdown, best->cost));
  const auto in_time = std::find_if(comparisons.begin(), comparisons.end(), [&](const Comparison& one) {
    return one.slowdown <= input.workload.limits.slowdown && one.broken.empty();
  });
  if (in_time != comparisons.end())
    page.AddFigure(
        fmt::format("phi {:g}", in_time->phi),
        fmt::format("is the least within slowdown {:g}", input.workload.limits.slowdown),
        fmt::format("cost {:.2f}x less, with fabric {:.2f}x", in_time->cost, in_time->cost_with_fabric));
  page.AddChart(
      ChartOf("Cost: traditional cluster over SmartNICs", "times cheaper",
              {LineOf(
                   "devices", comparisons, [](const Comparison& c) { return c.cost; }, false),
               LineOf(
                   "with fabric", comparisons, [](const Comparison& c) { return c.cost_with_fabric; }, false),
               LineOf(
                   "with right-sized fabric", comparisons,
                   [](const Comparison& c) { return c.cost_with_right_sized_fabric; }, false),
               Even("even", comparisons)}));
  page.AddChart(ChartOf(
      "Energy: traditional cluster over SmartNICs", "times less",
      {LineOf(
           "devices", comparisons, [](const Comparison& c) { return c.energy; }, false),
       LineOf(
           "with fabric", comparisons, [](const Comparison& c) { return c.energy_with_fabric; }, false),
       Even("even", comparisons)}));
  page.AddChart(ChartOf(
      "Slowdown: SmartNICs over traditional cluster", "execution time",
      {LineOf(
           "whole", comparisons, [](const Comparison& c) { return c.slowdown; }, false),
       LineOf(
           "cpu", comparisons, [](const Comparison& c) { return c.time.cpu; }, false),
       LineOf(
           "shuffle", comparisons, [](const Comparison& c) { return c.time.shuffle; }, false),
       LineOf(
           "storage", comparisons, [](const Comparison& c) { return c.time.storage; }, false),
       LineOf(
           "accelerators", comparisons, [](const Comparison& c) { return c.time.accelerator; }, false),
       LineOf(
           "stalls", comparisons, [](const Comparison& c) { return c.time.stall; }, false),
       Even("traditional", comparisons)}));
  page.AddTable("By phi", CompareTable(comparisons));
  page.AddText(
      "Right-sized: the traditional cluster's fabric, as much faster or slower as the application becomes "
      "(Lovelock, section 5.2). It carries the average; where shuffles and computing alternate, a slower "
      "fabric makes the shuffles longer.");
  page.Embed(document, "compare.json");
  return page;
}

}  // namespace spillway::planner
