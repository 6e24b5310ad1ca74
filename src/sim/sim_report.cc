// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace spillway::sim {
namespace {

constexpr size_t kWorstPoints = 10;  // that are listed
constexpr size_t kWidest = 130;      // of a table in a terminal; a policy's p99 beside what is late takes 20
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

std::vector<View> ViewsOf(const Scenario& scenario) {
  std::vector<View> views;
  for (const App& app : scenario.apps)
    for (const Arrivals& arrivals : scenario.ArrivalsOf(app))
      for (const Reports& reports : scenario.ReportsOf(app))
        views.push_back({app.name, arrivals.name, reports.name});
  return views;
}

const App& AppOf(const Scenario& scenario, const std::string& name) {
  return *std::find_if(scenario.apps.begin(), scenario.apps.end(),
                       [&](const App& app) { return app.name == name; });
}

// "dns, poisson arrivals, reports delay-20ms"; what the app has only one of goes without saying.
std::string Title(const Scenario& scenario, const View& view) {
  std::string title = view.app;
  const App& app = AppOf(scenario, view.app);
  if (scenario.ArrivalsOf(app).size() > 1) title += fmt::format(", {} arrivals", view.arrivals);
  if (scenario.ReportsOf(app).size() > 1) title += fmt::format(", reports {}", view.reports);
  return title;
}

bool Shows(const View& view, const Row& row) {
  return row.app == view.app && row.arrivals == view.arrivals && row.reports == view.reports;
}

const Row* Find(const Results& results, const View& view, const std::string& policy, double axis) {
  for (const Row& row : results.sweep.rows)
    if (row.policy == policy && row.axis == axis && Shows(view, row)) return &row;
  return nullptr;
}

// "at 80 % load", "at 700 requests/s", "at 9 times the work".
std::string At(const Axis& axis, double value) {
  switch (axis.kind) {
    case AxisKind::kLoad:
      return fmt::format("at {} % load", value);
    case AxisKind::kRate:
      return fmt::format("at {} requests/s", value);
    case AxisKind::kWork:
      break;
  }
  return fmt::format("at {} times the work", value);
}

std::string Where(const Results& results, const Row& row) {
  return fmt::format("{} {}", Title(results.scenario, {row.app, row.arrivals, row.reports}),
                     At(results.scenario.axis, row.axis));
}

report::Axis ChartAxis(const Axis& axis) {
  switch (axis.kind) {
    case AxisKind::kLoad:
      return {"Offered load", "% of the joint capacity"};
    case AxisKind::kRate:
      return {"Offered load", "requests/s"};
    case AxisKind::kWork:
      break;
  }
  return {"Work of a request", "times the service time"};
}

// Units that stand at the same place in every server share a name; else they are told by that place.
std::string ShareKey(const App& app, size_t unit) {
  std::string name;
  for (const ServerGroup& group : app.groups) {
    if (unit >= group.units.size()) continue;
    if (!name.empty() && name != group.units[unit].name) return fmt::format("share_unit_{}", unit);
    name = group.units[unit].name;
  }
  return "share_" + name;
}

nlohmann::ordered_json JsonRow(const Scenario& scenario, const Row& row) {
  const RunResult& result = row.result;
  nlohmann::ordered_json json = {{"app", row.app},
                                 {"arrivals", row.arrivals},
                                 {"reports", row.reports},
                                 {scenario.axis.name, row.axis},
                                 {"policy", row.policy},
                                 {"p50_ms", result.p50_ms},
                                 {"p99_ms", result.p99_ms},
                                 {"p999_ms", result.p999_ms},
                                 {"mean_ms", result.mean_ms},
                                 {"loss", result.loss},
                                 {"rps", row.rate_rps}};
  const App& app = AppOf(scenario, row.app);
  for (size_t unit = 0; unit < result.share.size(); unit++) json[ShareKey(app, unit)] = result.share[unit];
  json["tried"] = row.tried.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(row.tried);
  return json;
}

void SetVerdictRatios(const Scenario& scenario, const Verdict& verdict, report::Document& document) {
  const auto set = [&](const std::string& name, double value) {
    document.SetRatio(verdict.policy + "_" + name, value);
  };
  if (const Comparison* worst = Verdict::Worst(verdict.regrets)) {
    set("median_regret", verdict.Regret(50));
    set("p95_regret", verdict.Regret(95));
    set("worst_regret", worst->ratio);
  }
  for (const App& app : scenario.apps)
    if (const Comparison* worst = Verdict::Worst(verdict.regrets, app.name))
      set("worst_regret_" + app.name, worst->ratio);
  set("points_left_out", static_cast<double>(verdict.left_out.size()));
  set("points_lost_alone", static_cast<double>(verdict.lost_alone.size()));
  set("points_kept_alone", static_cast<double>(verdict.alone.size()));
  if (const Comparison* worst = Verdict::Worst(verdict.over_bound)) {
    set("worst_over_bound", worst->ratio);
    set("share_within_1.10_of_bound", verdict.NearBound());
  }
}

// The figure's name says of which app; of which arrivals and reports only where there are several.
std::string EnduranceKey(const Scenario& scenario, const Endurance& one) {
  std::string key = "sustained_load_" + one.policy + "_" + one.app;
  const App& app = AppOf(scenario, one.app);
  if (scenario.ArrivalsOf(app).size() > 1) key += "_" + one.arrivals;
  if (scenario.ReportsOf(app).size() > 1) key += "_" + one.reports;
  return key;
}

std::string Points(size_t count) { return fmt::format("{} point{}", count, count == 1 ? "" : "s"); }

void AddVerdictLines(const Results& results, const Verdict& verdict, std::vector<std::string>& lines) {
  const auto tell = [&](const std::string& text) { lines.push_back(verdict.policy + ": " + text); };
  const auto compare = [&](const Comparison& one) {
    return fmt::format("{:.3f} ({} ms; {}: {} ms; {})", one.ratio,
                       report::FormatNumber(one.own->result.p99_ms), one.other->policy,
                       report::FormatNumber(one.other->result.p99_ms), Where(results, *one.own));
  };
  if (const Comparison* worst = Verdict::Worst(verdict.regrets))
    tell(fmt::format("regret over all {}: median {:.3f}, p95 {:.3f}, worst {}",
                     Points(verdict.regrets.size()), verdict.Regret(50), verdict.Regret(95),
                     compare(*worst)));
  if (!verdict.lost_alone.empty())
    tell(fmt::format("loses where another policy does not at {}, first {}", Points(verdict.lost_alone.size()),
                     Where(results, *verdict.lost_alone.front())));
  if (!verdict.alone.empty())
    tell(fmt::format("loses no requests where every other policy loses some: at {}, first {}",
                     Points(verdict.alone.size()), Where(results, *verdict.alone.front())));
  if (!verdict.left_out.empty())
    tell(fmt::format("every policy loses at {}, which are left out", Points(verdict.left_out.size())));
  if (const Comparison* worst = Verdict::Worst(verdict.over_bound))
    tell(fmt::format("within {:.2f} of the bound at {:.0f} % of {}, worst {}", kNearBound,
                     100 * verdict.NearBound(), Points(verdict.over_bound.size()), compare(*worst)));
}

std::string Percent(double share) {
  const double percent = 100 * share;
  return fmt::format("{:.{}f} %", percent, percent < 9.95 ? 1 : 0);
}

// "18.80", or "18.80 (13 % late, 2.0 % unanswered)": the p99 is of the answers, late ones included; short,
// only what is in the brackets.
report::Cell P99Cell(const Row& row, bool is_short) {
  const RunResult& result = row.result;
  if (!Loses(row)) return result.p99_ms;
  const double unanswered =
      static_cast<double>(result.dropped) / static_cast<double>(std::max<uint64_t>(result.requests, 1));
  const double late = result.loss - unanswered;
  std::vector<std::string> parts;
  if (late > 0.0005) parts.push_back(Percent(late) + " late");
  if (unanswered > 0.0005) parts.push_back(Percent(unanswered) + " unanswered");
  const std::string what = fmt::format("{}", fmt::join(parts, ", "));
  return unanswered < 1 && !is_short ? fmt::format("{} ({})", report::FormatNumber(result.p99_ms), what)
                                     : what;
}

std::string Rate(double requests) {
  return requests >= 1e6 ? fmt::format("{:.1f} million", requests / 1e6) : fmt::format("{:.0f}", requests);
}

report::Chart P99Chart(const Results& results, const View& view) {
  const Scenario& scenario = results.scenario;
  report::Chart chart;
  chart.title = "99th percentile of latency: " + Title(scenario, view);
  chart.x = ChartAxis(scenario.axis);
  chart.y = {"p99", "ms", true};
  chart.loss_label = fmt::format("more than {:g} % late or unanswered", 100 * kToleratedLoss);
  for (const PolicyChoice& policy : scenario.policies) {
    report::Series series;
    series.name = policy.name;
    series.dashed = policy.decider == DeciderKind::kOmniscient;
    for (double value : scenario.ValuesOf(AppOf(scenario, view.app))) {
      const Row* row = Find(results, view, policy.name, value);
      if (row == nullptr) continue;
      // The line ends where the policy begins to lose: what is left of its p99 then says nothing.
      series.points.push_back(
          {value, Loses(*row) ? kNothing : row->result.p99_ms, kNothing, kNothing, Loses(*row)});
      if (Loses(*row)) break;
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

std::string EnduranceCaption(const Results& results) {
  return fmt::format("{} up to which no more than {:g} % was late or unanswered; beyond it a policy loses",
                     results.scenario.axis.name, 100 * kToleratedLoss);
}

std::string WorstCaption(const Verdict& verdict) {
  return fmt::format("{}: where its p99 is worst beside that of the best other policy", verdict.policy);
}

// How many runs percentiles are of; empty: one each.
std::string Runs(const Scenario& scenario) {
  std::string text = scenario.runs > 1 ? fmt::format("{} runs a point, ", scenario.runs) : "";
  for (const App& app : scenario.apps)
    if (app.own.runs) text += fmt::format("{} of {}, ", *app.own.runs, app.name);
  return text;
}

std::string Lead(const Results& results) {
  const Scenario& scenario = results.scenario;
  return fmt::format(
      "Simulated, with the decisions that the data plane takes: {}{} measured requests a run, {} in all. "
      "Lost "
      "is "
      "a request without an answer, or with one later than {:g} times the unloaded latency; a line ends "
      "where "
      "its policy loses more than {:g} %. Dashed: a bound that no switch can reach, as it knows the work of "
      "every request.",
      Runs(scenario), Rate(static_cast<double>(scenario.requests)),
      Rate(static_cast<double>(results.sweep.requests)), scenario.loss_over_unloaded, 100 * kToleratedLoss);
}

}  // namespace

report::Table P99Table(const Results& results, const View& view, bool is_short) {
  const Scenario& scenario = results.scenario;
  std::vector<report::Column> columns = {{scenario.axis.name, scenario.axis.name}};
  for (const PolicyChoice& policy : scenario.policies) columns.push_back({policy.name, policy.name});
  report::Table table(std::move(columns));
  for (double value : scenario.ValuesOf(AppOf(scenario, view.app))) {
    std::vector<report::Cell> cells = {value};
    bool any = false;
    for (const PolicyChoice& policy : scenario.policies) {
      const Row* row = Find(results, view, policy.name, value);
      any = any || row != nullptr;
      if (row == nullptr)
        cells.emplace_back();
      else
        cells.push_back(P99Cell(*row, is_short));
    }
    if (any) table.AddRow(std::move(cells));
  }
  return table;
}

std::string LateLine(const Results& results, const View& view) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const Row& row : results.sweep.rows) {
    if (!Shows(view, row)) continue;
    least = std::min(least, row.result.limit_ms);
    most = std::max(most, row.result.limit_ms);
  }
  if (least > most) return "";
  const std::string ms = report::FormatNumber(least);  // it grows with the work, where that is swept
  return fmt::format(
      "late: answered after {} ms, {:g} x the unloaded latency of {}; loss_over_unloaded sets it",
      least < most ? ms + " to " + report::FormatNumber(most) : ms, results.scenario.loss_over_unloaded,
      AppOf(results.scenario, view.app).groups.front().units.front().name);
}

report::Table EnduranceTable(const Results& results) {
  const Scenario& scenario = results.scenario;
  std::vector<report::Column> columns = {{"sweep", "sweep"}};
  for (const PolicyChoice& policy : scenario.policies) columns.push_back({policy.name, policy.name});
  report::Table table(std::move(columns));
  for (const View& view : ViewsOf(scenario)) {
    std::vector<report::Cell> cells = {Title(scenario, view)};
    bool any = false;
    for (const PolicyChoice& policy : scenario.policies) {
      const auto& all = results.findings.endurance;
      const auto one = std::find_if(all.begin(), all.end(), [&](const Endurance& e) {
        return e.policy == policy.name && e.app == view.app && e.arrivals == view.arrivals &&
               e.reports == view.reports;
      });
      any = any || one != all.end();
      if (one == all.end())
        cells.emplace_back();
      else if (one->sustained)
        cells.emplace_back(*one->sustained);
      else
        cells.emplace_back("none");
    }
    if (any) table.AddRow(std::move(cells));
  }
  return table;
}

report::Table WorstTable(const Results& results, const Verdict& verdict) {
  report::Table table({{"point", "point"},
                       {"regret", "regret"},
                       {"p99", "p99 ms"},
                       {"best", "best"},
                       {"best_p99", "its p99 ms"}});
  for (const Comparison& one : verdict.WorstRegrets(kWorstPoints))
    table.AddRow({Where(results, *one.own), fmt::format("{:.3f}", one.ratio), one.own->result.p99_ms,
                  one.other->policy, one.other->result.p99_ms});
  return table;
}

std::vector<std::string> FindingLines(const Results& results) {
  std::vector<std::string> lines;
  for (const Verdict& verdict : results.findings.verdicts) AddVerdictLines(results, verdict, lines);
  return lines;
}

std::string ResultText(const Results& results) {
  std::string text;
  for (const View& view : ViewsOf(results.scenario)) {
    const report::Table table = P99Table(results, view);
    if (table.rows().empty()) continue;
    const std::string whole = table.Text();
    const std::string shown = whole.find('\n') > kWidest ? P99Table(results, view, true).Text() : whole;
    text += fmt::format("{}: p99 in ms\n{}{}{}\n\n", Title(results.scenario, view), shown,
                        LateLine(results, view), shown == whole ? "" : "; --json has the p99 there");
  }
  text += fmt::format("{}\n{}\n", EnduranceCaption(results), EnduranceTable(results).Text());
  for (const Verdict& verdict : results.findings.verdicts)
    if (!verdict.regrets.empty())
      text += fmt::format("{}\n{}\n", WorstCaption(verdict), WorstTable(results, verdict).Text());
  for (const std::string& line : FindingLines(results)) text += line + "\n";
  if (results.sweep.cpu_seconds > 0)
    text += fmt::format("{} requests, {} per second and core.\n",
                        Rate(static_cast<double>(results.sweep.requests)),
                        Rate(static_cast<double>(results.sweep.requests) / results.sweep.cpu_seconds));
  return text;
}

report::Document ResultDocument(const Results& results) {
  const Scenario& scenario = results.scenario;
  report::Document document("sim." + scenario.name);
  for (const Row& row : results.sweep.rows) document.AddRow(JsonRow(scenario, row));
  for (const Verdict& verdict : results.findings.verdicts) SetVerdictRatios(scenario, verdict, document);
  for (const Endurance& one : results.findings.endurance)
    document.SetRatio(EnduranceKey(scenario, one), one.sustained.value_or(0));
  size_t whole = 0;
  for (const View& view : ViewsOf(scenario))
    whole += scenario.ValuesOf(AppOf(scenario, view.app)).size() * scenario.policies.size();
  document.SetRatio("rows_missing", static_cast<double>(whole - results.sweep.rows.size()));
  if (results.sweep.cpu_seconds > 0)
    document.SetRatio("requests_per_cpu_second",
                      static_cast<double>(results.sweep.requests) / results.sweep.cpu_seconds);
  return document;
}

report::HtmlPage ResultPage(const Results& results, const report::Document& document) {
  report::HtmlPage page("Spillway simulator: " + results.scenario.name, Lead(results));
  for (const Verdict& verdict : results.findings.verdicts) {
    if (const Comparison* worst = Verdict::Worst(verdict.regrets))
      page.AddFigure(fmt::format("{:.2f}", worst->ratio),
                     "worst p99 of " + verdict.policy + " over the best other policy's",
                     Where(results, *worst->own));
    if (!verdict.over_bound.empty())
      page.AddFigure(fmt::format("{:.0f} %", 100 * verdict.NearBound()),
                     fmt::format("of {}'s points within {:.2f} of the bound", verdict.policy, kNearBound));
  }
  for (const std::string& line : FindingLines(results)) page.AddText(line);
  struct Titled {
    std::string title, late;
    report::Table table;
  };
  std::vector<Titled> tables;
  for (const View& view : ViewsOf(results.scenario)) {
    report::Table table = P99Table(results, view);
    if (table.rows().empty()) continue;
    page.AddChart(P99Chart(results, view));
    tables.push_back({Title(results.scenario, view), LateLine(results, view), std::move(table)});
  }
  page.AddHeading("p99 in ms");
  for (const auto& [title, late, table] : tables) {
    page.AddTable(title, table);
    page.AddText(late);
  }
  for (const Verdict& verdict : results.findings.verdicts)
    if (!verdict.regrets.empty()) page.AddTable(WorstCaption(verdict), WorstTable(results, verdict));
  page.AddHeading("Load that was sustained");
  page.AddTable(EnduranceCaption(results), EnduranceTable(results));
  page.Embed(document, "report.json");
  return page;
}

}  // namespace spillway::sim
