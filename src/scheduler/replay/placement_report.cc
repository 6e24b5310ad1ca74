// SPDX-License-Identifier: Apache-2.0
// What the placement experiment says.
#include "scheduler/replay/reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/percentile.h"
#include "report/table.h"

namespace spillway::scheduler {
namespace {

using nlohmann::ordered_json;
using Group = std::vector<const PlacementRun*>;

double Thousandths(double value) { return std::round(value * 1000) / 1000; }
double Tenths(double value) { return std::round(value * 10) / 10; }

bool SameButSeed(const PlacementRun& a, const PlacementRun& b) {
  return a.policy == b.policy && a.prices == b.prices && a.rehearsed == b.rehearsed;
}

// Runs that differ in their seed alone, in the order in which they first came.
std::vector<Group> Groups(const std::vector<PlacementRun>& runs) {
  std::vector<Group> groups;
  for (const PlacementRun& run : runs) {
    const auto at = std::find_if(groups.begin(), groups.end(),
                                 [&](const Group& group) { return SameButSeed(*group.front(), run); });
    at == groups.end() ? groups.push_back({&run}) : at->push_back(&run);
  }
  return groups;
}

std::string NameOf(const PlacementRun& run) {
  return run.prices && !run.rehearsed
             ? fmt::format("{}, prices {}", ToString(run.policy), ToString(*run.prices))
             : ToString(run.policy);
}

template <class Value>
double Mean(const Group& group, Value value) {
  double sum = 0;
  for (const PlacementRun* run : group) sum += value(*run);
  return sum / static_cast<double>(group.size());
}

// Null where there is none.
ordered_json MeanBound(const Group& group, double PlacementBound::*bound) {
  for (const PlacementRun* run : group)
    if (!run->bound) return {};
  return Thousandths(Mean(group, [&](const PlacementRun& run) { return *run.bound.*bound; }));
}

ordered_json RowOf(const std::string& list, const Group& group, const PublishedByPolicy& published) {
  const PlacementRun& first = *group.front();
  std::vector<double> at_100;
  for (const PlacementRun* run : group) at_100.push_back(run->at_100);
  const report::Spread spread = report::SpreadOf(at_100);
  const auto theirs = published.find(first.policy);
  const bool known = theirs != published.end();
  return {{"policy", ToString(first.policy)},
          {"prices", first.prices ? ordered_json(ToString(*first.prices)) : ordered_json()},
          {"rehearsed", first.prices ? ordered_json(first.rehearsed) : ordered_json()},
          {"list", list},
          {"seeds", group.size()},
          {"alloc_pct_at_100", Thousandths(Mean(group, [](const auto& run) { return run.at_100; }))},
          {"alloc_pct_at_130", Thousandths(Mean(group, [](const auto& run) { return run.at_130; }))},
          {"published_at_100", known ? ordered_json(theirs->second.at_100) : ordered_json()},
          {"published_at_130", known ? ordered_json(theirs->second.at_130) : ordered_json()},
          {"bound_pct", MeanBound(group, &PlacementBound::any_pct)},
          {"bound_willing_pct", MeanBound(group, &PlacementBound::willing_pct)},
          {"min_pct_at_100", Thousandths(spread.min)},
          {"max_pct_at_100", Thousandths(spread.max)},
          {"dropped", Tenths(Mean(group, [](const auto& run) { return run.dropped; }))}};
}

const Group* Find(const std::vector<Group>& groups, Policy policy) {
  for (const Group& group : groups)
    if (group.front()->policy == policy && (policy != Policy::kSpillway || group.front()->rehearsed))
      return &group;
  return nullptr;
}

void AddRatios(report::Document& document, const std::vector<Group>& groups,
               const PublishedByPolicy& published) {
  const Group *spillway = Find(groups, Policy::kSpillway), *fgd = Find(groups, Policy::kFgd);
  if (spillway == nullptr) return;
  const auto at_100 = [](const PlacementRun& run) { return run.at_100; };
  const auto at_130 = [](const PlacementRun& run) { return run.at_130; };
  const double ours = Mean(*spillway, at_130);
  // The share of the way from FGD to a bound at 130 %.
  const auto gap = [&](const char* key, double low, double PlacementBound::*bound) {
    const ordered_json high = MeanBound(*spillway, bound);
    if (!high.is_null() && high > low)
      document.SetRatio(key, Tenths(100 * (ours - low) / (high.get<double>() - low)));
  };
  const auto theirs = published.find(Policy::kFgd);
  if (theirs != published.end()) {
    const double low = theirs->second.at_130;
    document.SetRatio("points_over_published_fgd_at_130", Thousandths(ours - low));
    gap("gap_to_bound_closed_pct", low, &PlacementBound::any_pct);
    gap("gap_to_willing_bound_closed_pct", low, &PlacementBound::willing_pct);
  } else if (fgd != nullptr) {
    const double low = Mean(*fgd, at_130);
    gap("gap_from_our_fgd_to_bound_closed_pct", low, &PlacementBound::any_pct);
    gap("gap_from_our_fgd_to_willing_bound_closed_pct", low, &PlacementBound::willing_pct);
  }
  if (fgd != nullptr) {
    document.SetRatio("points_over_fgd_at_100", Thousandths(Mean(*spillway, at_100) - Mean(*fgd, at_100)));
    document.SetRatio("points_over_fgd_at_130", Thousandths(ours - Mean(*fgd, at_130)));
  }
}

}  // namespace

report::Document PlacementDocument(const std::string& list, const std::vector<PlacementRun>& runs,
                                   const PublishedByPolicy& published) {
  report::Document document("sched.placement." + list);
  const std::vector<Group> groups = Groups(runs);
  document.SetRounds(groups.empty() ? 0 : static_cast<int>(groups.front().size()));
  for (const Group& group : groups) document.AddRow(RowOf(list, group, published));
  AddRatios(document, groups, published);
  return document;
}

std::string PlacementText(const report::Document& document) {
  ordered_json rows = ordered_json::array();
  for (ordered_json row : document.rows()) {
    row.erase("list");
    rows.push_back(row);
  }
  std::string text = fmt::format(
      "{}\nMilli-GPUs allocated, % of the cluster's, when the demand that arrived was 100 % and 130 % of it; "
      "means of the seeds. published: FGD's authors. bound: no packing of these jobs allocates more at 130 "
      "%; bound_willing: no policy that refuses no job that fits.\n",
      ReportTable(rows).Text());
  const ordered_json whole = document.Json();
  constexpr std::pair<const char*, const char*> kRatios[] = {
      {"points_over_published_fgd_at_130", "points over FGD, as published, at 130 %"},
      {"points_over_fgd_at_130", "points over our FGD at 130 %"},
      {"gap_to_bound_closed_pct", "% of the gap from FGD, as published, to bound"},
      {"gap_to_willing_bound_closed_pct", "% of the gap from FGD, as published, to bound_willing"},
      {"gap_from_our_fgd_to_bound_closed_pct", "% of the gap from our FGD to bound"},
      {"gap_from_our_fgd_to_willing_bound_closed_pct", "% of the gap from our FGD to bound_willing"}};
  for (const auto& [key, meaning] : kRatios)
    if (whole["ratios"].contains(key))
      text += fmt::format("policy spillway: {} {}\n", whole["ratios"][key].get<double>(), meaning);
  return text;
}

report::HtmlPage PlacementPage(const std::string& list, const std::vector<PlacementRun>& runs,
                               const report::Document& document) {
  report::HtmlPage page(
      "Spillway scheduler: placement, list " + list,
      "Jobs arrive until they have asked for 130 % of the cluster and never leave; one that fits "
      "nowhere is dropped.");
  report::Chart chart;
  chart.title = "Allocated GPUs against arrived demand";
  chart.x = {"demand that arrived", "% of the cluster", false, 80.0, 130.0};
  chart.y = {"allocated", "%", false, 80.0, 100.0};
  for (const Group& group : Groups(runs)) {
    const PlacementRun& first = *group.front();
    report::Series series;
    series.name = NameOf(first);
    series.dashed = first.policy != Policy::kSpillway;
    for (size_t k = 80 / kCurveStep; k <= kDemandPct / kCurveStep; ++k) {
      Group at;
      for (const PlacementRun* run : group)
        if (k < run->curve.size()) at.push_back(run);
      if (!at.empty())
        series.points.push_back({static_cast<double>(k) * kCurveStep,
                                 Mean(at, [&](const PlacementRun& run) { return run.curve[k]; })});
    }
    chart.series.push_back(std::move(series));
    if (first.policy == Policy::kSpillway && first.rehearsed)
      page.AddFigure(fmt::format("{:.2f} %", Mean(group, [](const PlacementRun& run) { return run.at_100; })),
                     "allocated at 100 % demand", fmt::format("mean of {} seeds", group.size()));
  }
  page.AddChart(chart);
  page.AddTable("By policy", ReportTable(document.rows()));
  page.Embed(document, "placement.json");
  return page;
}

}  // namespace spillway::scheduler
