// SPDX-License-Identifier: Apache-2.0
#include "scheduler/arrivals_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/percentile.h"
#include "report/table.h"
#include "scheduler/report_table.h"

namespace spillway::scheduler {
namespace {

using Group = std::vector<const ArrivalsRun*>;

// Runs that differ in their seed alone, in the order in which they first came.
std::vector<Group> Groups(const std::vector<ArrivalsRun>& runs) {
  std::vector<Group> groups;
  for (const ArrivalsRun& run : runs) {
    const auto at = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return group.front()->policy == run.policy && group.front()->moves_per_100 == run.moves_per_100;
    });
    if (at == groups.end())
      groups.push_back({&run});
    else
      at->push_back(&run);
  }
  return groups;
}

double Rounded(double value, double steps) { return std::round(value * steps) / steps; }

std::string NameOf(const ArrivalsRun& run) {
  return run.moves_per_100 == 0 ? ToString(run.policy)
                                : fmt::format("{}, {} moves", ToString(run.policy), run.moves_per_100);
}

template <class Value>
double Mean(const Group& group, Value value) {
  double sum = 0;
  for (const ArrivalsRun* run : group) sum += value(*run);
  return sum / static_cast<double>(group.size());
}

double Mean(const Group& group, double ArrivalsRun::*value) {
  return Mean(group, [&](const ArrivalsRun& run) { return run.*value; });
}

}  // namespace

report::Document ArrivalsDocument(const std::string& list, const std::vector<ArrivalsRun>& runs,
                                  const ArrivalsOptions& options) {
  report::Document document("sched.arrivals." + list);
  document.SetRounds(options.seeds);
  for (const Group& group : Groups(runs)) {
    std::vector<double> allocated;
    for (const ArrivalsRun* run : group) allocated.push_back(run->allocated_pct);
    const report::Spread spread = report::SpreadOf(allocated);
    document.AddRow(
        {{"policy", ToString(group.front()->policy)},
         {"moves_per_100_allowed", group.front()->moves_per_100},
         {"list", list},
         {"seeds", group.size()},
         {"load_pct", options.load_pct},
         {"longest_s", options.longest_s},
         {"alloc_pct", Rounded(Mean(group, &ArrivalsRun::allocated_pct), 1000)},
         {"min_alloc_pct", Rounded(spread.min, 1000)},
         {"max_alloc_pct", Rounded(spread.max, 1000)},
         {"fragmented_pct", Rounded(Mean(group, &ArrivalsRun::fragmented_pct), 1000)},
         {"waiting_pct", Rounded(Mean(group, &ArrivalsRun::waiting_pct), 1000)},
         {"delayed_pct", Rounded(Mean(group, &ArrivalsRun::delayed_pct), 1000)},
         {"delay_mean_s", Rounded(Mean(group, &ArrivalsRun::delay_mean_s), 10)},
         {"delay_p50_s", Rounded(Mean(group, &ArrivalsRun::delay_p50_s), 10)},
         {"delay_p99_s", Rounded(Mean(group, &ArrivalsRun::delay_p99_s), 10)},
         {"delay_several_gpus_mean_s", Rounded(Mean(group, &ArrivalsRun::delay_several_gpus_mean_s), 1)},
         {"moves_per_100", Rounded(Mean(group, &ArrivalsRun::moves), 1000)},
         {"learnt", Rounded(Mean(group, [](const ArrivalsRun& run) { return run.learnt; }), 10)}});
  }
  return document;
}

std::string ArrivalsText(const report::Document& document) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (nlohmann::ordered_json row : document.rows()) {
    for (const char* same : {"list", "seeds", "load_pct", "longest_s", "min_alloc_pct", "max_alloc_pct"})
      row.erase(same);
    rows.push_back(row);
  }
  return fmt::format(
      "{}\nMeans of the seeds. alloc, fragmented, waiting: over time, % of the cluster's GPUs: allocated; "
      "free "
      "but of no use to the list's jobs (FGD's measure); asked for by jobs that wait. delay: from arrival to "
      "start, of all jobs; those that still wait at the end count with what they waited. moves: of running "
      "jobs, to make room for one that would wait.\n",
      ReportTable(rows).Text());
}

report::HtmlPage ArrivalsPage(const std::string& list, const std::vector<ArrivalsRun>& runs,
                              const report::Document& document) {
  report::HtmlPage page("Spillway scheduler: arrivals and departures, list " + list,
                        "Jobs come, wait where they do not fit, and leave. How much is allocated, and how "
                        "long do jobs wait?");
  for (const bool moves : {false, true}) {
    report::Chart chart;
    chart.title = moves ? "Allocated GPUs over time, with moves" : "Allocated GPUs over time";
    chart.x = {"time", "% of the measured part"};
    chart.y = {"allocated", "%"};
    for (const Group& group : Groups(runs)) {
      if ((group.front()->moves_per_100 > 0) != moves) continue;
      report::Series series;
      series.name = ToString(group.front()->policy);
      series.dashed = group.front()->policy != Policy::kSpillway;
      for (int part = 0; part < kArrivalsParts; ++part)
        series.points.push_back(
            {100.0 * (part + 0.5) / kArrivalsParts, Mean(group, [&](const ArrivalsRun& run) {
               return run.curve.empty() ? 0 : run.curve[static_cast<size_t>(part)];
             })});
      chart.series.push_back(std::move(series));
    }
    if (!chart.series.empty()) page.AddChart(chart);
  }
  for (const Group& group : Groups(runs))
    if (group.front()->policy == Policy::kSpillway)
      page.AddFigure(fmt::format("{:.2f} %", Mean(group, &ArrivalsRun::allocated_pct)),
                     "allocated, " + NameOf(*group.front()),
                     fmt::format("mean delay {:.0f} s", Mean(group, &ArrivalsRun::delay_mean_s)));
  page.AddTable("By policy", ReportTable(document.rows()));
  page.Embed(document, "arrivals.json");
  return page;
}

}  // namespace spillway::scheduler
