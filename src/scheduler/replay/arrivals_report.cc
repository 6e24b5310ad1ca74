// SPDX-License-Identifier: Apache-2.0
// What the arrivals experiment says.
#include "scheduler/replay/reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/percentile.h"
#include "report/table.h"

namespace spillway::scheduler {
namespace {

using Group = std::vector<const ArrivalsRun*>;

// Runs that differ in their seed alone, in the order in which they first came.
std::vector<Group> Groups(const std::vector<ArrivalsRun>& runs) {
  std::vector<Group> groups;
  for (const ArrivalsRun& run : runs) {
    const auto at = std::find_if(groups.begin(), groups.end(),
                                 [&](const Group& group) { return group.front()->who == run.who; });
    if (at == groups.end())
      groups.push_back({&run});
    else
      at->push_back(&run);
  }
  return groups;
}

std::string NameOf(const ArrivalsContestant& who) {
  std::string name = ToString(who.policy);
  if (who.demand != Demand::kNone) name += fmt::format(", {}", ToString(who.demand));
  if (who.moves_per_100 > 0) name += fmt::format(", {} moves", who.moves_per_100);
  return name;
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

// The FGD that a row is compared with: with as many moves, and with the same knowledge. Where a policy asks
// for none, and FGD's own learning is to be judged, FGD as published, which has it from the list.
ArrivalsContestant Against(const ArrivalsContestant& who) {
  const bool learns = who.policy == Policy::kSpillway && who.demand == Demand::kLearnt;
  return {Policy::kFgd, learns ? Demand::kLearnt : Demand::kList, who.moves_per_100};
}

// By how much a value is above the other group's, seed by seed: the mean, and its standard error (null: of
// one seed).
std::pair<double, nlohmann::ordered_json> Difference(const Group& group, const Group& other,
                                                     double ArrivalsRun::*value) {
  std::vector<double> apart;
  for (const ArrivalsRun* run : group)
    for (const ArrivalsRun* theirs : other)
      if (theirs->seed == run->seed) apart.push_back(run->*value - theirs->*value);
  const auto count = static_cast<double>(apart.size());
  double mean = 0, square = 0;
  for (const double one : apart) mean += one / count;
  for (const double one : apart) square += (one - mean) * (one - mean);
  if (apart.size() < 2) return {mean, nullptr};
  return {mean, Rounded(std::sqrt(square / (count - 1) / count), 1000)};
}

// Nulls where that FGD was not run, or is this row itself.
void AddDifferences(nlohmann::ordered_json& row, const Group& group, const std::vector<Group>& groups) {
  constexpr std::pair<const char*, double ArrivalsRun::*> kValues[] = {
      {"alloc", &ArrivalsRun::allocated_pct}, {"waiting", &ArrivalsRun::waiting_pct}};
  const ArrivalsContestant who = group.front()->who, against = Against(who);
  const auto other = std::find_if(groups.begin(), groups.end(),
                                  [&](const Group& one) { return one.front()->who == against; });
  const bool known = other != groups.end() && !(against == who);
  row["against"] = known ? nlohmann::ordered_json(NameOf({against.policy, against.demand, 0})) : nullptr;
  for (const auto& [name, value] : kValues) {
    nlohmann::ordered_json mean, error;
    if (known) {
      const auto difference = Difference(group, *other, value);
      mean = Rounded(difference.first, 1000);
      error = difference.second;
    }
    row[fmt::format("{}_more_pct", name)] = mean;
    row[fmt::format("{}_more_error_pct", name)] = error;
  }
}

}  // namespace

report::Document ArrivalsDocument(const std::string& list, const std::vector<ArrivalsRun>& runs,
                                  const ArrivalsOptions& options) {
  report::Document document("sched.arrivals." + list);
  const std::vector<Group> groups = Groups(runs);
  document.SetRounds(groups.empty() ? 0 : static_cast<int>(groups.front().size()));
  for (const Group& group : groups) {
    const ArrivalsContestant& who = group.front()->who;
    std::vector<double> allocated;
    for (const ArrivalsRun* run : group) allocated.push_back(run->allocated_pct);
    const report::Spread spread = report::SpreadOf(allocated);
    nlohmann::ordered_json row = {
        {"policy", ToString(who.policy)},
        {"demand", who.demand == Demand::kNone ? nlohmann::ordered_json() : ToString(who.demand)},
        {"moves_per_100_allowed", who.moves_per_100},
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
        {"learnt", Rounded(Mean(group, [](const ArrivalsRun& run) { return run.learnt; }), 10)}};
    AddDifferences(row, group, groups);
    document.AddRow(std::move(row));
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
      "jobs, to make room for one that would wait. more: than under the FGD that `against` names, seed by "
      "seed; "
      "error: the standard error of that. demand: what comes is learnt, or known from the list.\n",
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
      if ((group.front()->who.moves_per_100 > 0) != moves) continue;
      report::Series series;
      series.name = NameOf({group.front()->who.policy, group.front()->who.demand, 0});
      series.dashed = group.front()->who.policy != Policy::kSpillway;
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
    if (group.front()->who.policy == Policy::kSpillway)
      page.AddFigure(fmt::format("{:.2f} %", Mean(group, &ArrivalsRun::allocated_pct)),
                     "allocated, " + NameOf(group.front()->who),
                     fmt::format("mean delay {:.0f} s", Mean(group, &ArrivalsRun::delay_mean_s)));
  page.AddTable("By policy", ReportTable(document.rows()));
  page.Embed(document, "arrivals.json");
  return page;
}

}  // namespace spillway::scheduler
