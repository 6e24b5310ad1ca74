// SPDX-License-Identifier: Apache-2.0
#include "experiment_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "prediction.h"

namespace spillway::lab {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr Forecast kNoForecast{kNaN, kNaN, kNaN};

double ForecastAnsweredPct(const Forecast& forecast) { return 100 * (1 - forecast.loss); }

bool AnyPredicted(const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.predicted.has_value(); });
}

// A quantity that charts show: measured, its interval if it has one, and simulated.
struct Quantity {
  report::Axis axis;
  std::function<double(const Row&)> value;
  std::function<double(const Forecast&)> predicted;
  bool has_interval = false;
};

report::Chart MakeChart(const ExperimentSpec& spec, const Results& results, const std::string& title,
                        const Quantity& quantity) {
  report::Chart chart;
  chart.title = title;
  if (quantity.has_interval)
    chart.note =
        fmt::format("Over {}, with the {:.0f} % interval.", SlicesText(results.rows), 100 * kConfidence);
  if (spec.predict) chart.note += " Measured: solid. Simulated: dashed.";
  chart.x = {spec.grow == ExperimentSpec::Grow::kWork ? "Offered load, by larger requests" : "Offered load",
             fmt::format("% of what {} sustains", model::ToString(spec.capacity_under))};
  chart.y = quantity.axis;
  chart.loss_label = fmt::format("more than {:g} % lost", spec.tolerated_loss_pct);
  for (const PolicyRun& policy : spec.policies) {
    report::Series series;
    series.name = policy.name;
    for (const Row& row : results.rows) {
      if (row.policy != policy.name) continue;
      const bool band = quantity.has_interval && row.p99_interval;
      series.points.push_back({row.load_pct, quantity.value(row), band ? row.p99_interval->low : kNaN,
                               band ? row.p99_interval->high : kNaN,
                               row.answered_pct < 100 - spec.tolerated_loss_pct});
    }
    chart.series.push_back(std::move(series));
  }
  if (!spec.predict) return chart;
  for (size_t i = 0; i < spec.policies.size(); i++) {
    report::Series series;
    series.name = spec.policies[i].name + " simulated";
    series.dashed = true;
    series.like = static_cast<int>(i);
    for (const Row& row : results.rows)
      if (row.policy == spec.policies[i].name && row.predicted)
        series.points.push_back({row.load_pct, quantity.predicted(*row.predicted)});
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// "dns: ", before a chart's title.
std::string Of(const Part& part) { return part.spec.app.empty() ? "" : part.spec.app + ": "; }

// `which`: "baseline" or "best".
void AddAgainst(nlohmann::ordered_json& json, const std::string& which,
                const std::optional<Against>& against) {
  if (!against) return;
  const P99Comparison& p99 = against->p99;
  json[which] = against->policy;
  json["p99_over_" + which] = p99.ratio;
  json["p99_over_" + which + "_low"] = p99.interval ? p99.interval->low : kNaN;
  json["p99_over_" + which + "_high"] = p99.interval ? p99.interval->high : kNaN;
  json["verdict_on_" + which] = ToString(p99.verdict);
}

void AddRows(report::Document& document, const Part& part) {
  for (const Row& row : part.results.rows) {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    if (!part.spec.app.empty()) json["app"] = part.spec.app;
    json.update({{"policy", row.policy},
                 {"load_pct", row.load_pct},
                 {"rps", row.rps},
                 {"p50_ms", row.p50_ms},
                 {"p99_ms", row.p99_ms},
                 {"answered_pct", row.answered_pct},
                 {"median_slice_answered_pct", row.median_slice_answered_pct},
                 {"p99_ms_low", row.p99_interval ? row.p99_interval->low : kNaN},
                 {"p99_ms_high", row.p99_interval ? row.p99_interval->high : kNaN},
                 {"slices", row.slices},
                 {"slices_played_again", row.replays},
                 {"slices_disturbed", row.disturbed},
                 {"slices_slow", row.slow},
                 {"client_sent_pct", row.sent_pct}});
    if (row.cpu_ms > 0) json["units_cpu_ms"] = row.cpu_ms;
    if (row.interrupted) json["interrupted"] = true;
    if (row.late_p99_ms) json["client_late_p99_ms"] = *row.late_p99_ms;
    AddAgainst(json, "baseline", row.baseline);
    AddAgainst(json, "best", row.best);
    if (row.predicted)
      json.update({{"predicted_p50_ms", row.predicted->p50_ms},
                   {"predicted_p99_ms", row.predicted->p99_ms},
                   {"predicted_loss", row.predicted->loss},
                   {"p99_measured_over_predicted", P99OverPredicted(row).value_or(kNaN)}});
    if (part.spec.grow == ExperimentSpec::Grow::kWork) json["work"] = part.spec.WorkAt(row.load_pct);
    document.AddRow(std::move(json));
  }
}

void AddRatios(report::Document& document, const Part& part) {
  const auto& [spec, results] = part;
  const auto set = [&, before = spec.app.empty() ? "" : spec.app + "_"](
                       const std::string& name, double value) { document.SetRatio(before + name, value); };
  for (const Calibration::Unit& unit : results.calibration.units) set(unit.label + "_capacity_rps", unit.rps);
  set("capacity_rps", results.calibration.full_rps);
  set("unloaded_ms", results.calibration.unloaded_ms);
  set("loss_limit_ms", results.calibration.limit_ms);
  set("seed", static_cast<double>(spec.seed));
  int replays = 0, disturbed = 0, slow = 0;
  for (const Row& row : results.rows) {
    replays += row.replays;
    disturbed += row.disturbed;
    slow += row.slow;
  }
  set("slices_played_again", replays);
  set("slices_disturbed", disturbed);
  set("slices_slow", slow);
  if (results.interrupted) set("interrupted", 1);
  if (const auto agreement = AgreementOf(results.rows)) {
    set("predicted_points", static_cast<double>(agreement->points));
    set("predicted_points_p99_within_1.5", static_cast<double>(agreement->within()));
    set("predicted_pairs", static_cast<double>(agreement->pairs));
    set("predicted_pairs_in_order", static_cast<double>(agreement->in_order()));
  }
  const auto host_only =
      std::find_if(spec.policies.begin(), spec.policies.end(),
                   [](const PolicyRun& policy) { return policy.unit_policy == SPW_UNIT_HOST_ONLY; });
  const std::string& baseline = spec.policies[spec.baseline].name;
  for (const Finding& f : results.findings) {
    set(f.policy + "_load_before_loss_pct", f.loses_from_pct.value_or(0));
    set(f.policy + "_sustained_pct", f.sustained_pct.value_or(0));
    set(f.policy + "_sustained_rps", f.sustained_rps);
    if (auto off = AccuracyOf(results.rows, f.policy)) {
      set(f.policy + "_p50_measured_over_predicted", off->p50_ratio);
      set(f.policy + "_p99_measured_over_predicted", off->p99_ratio);
    }
    if (f.over_best) set(f.policy + "_over_best_load_before_loss", *f.over_best);
    const auto over = [&](const std::string& name) {
      for (const Finding& other : results.findings)
        if (const auto ratio = LoadRatio(f, other); other.policy == name && f.policy != name && ratio)
          set(fmt::format("{}_over_{}_load_before_loss", f.policy, name), *ratio);
    };
    over(baseline);
    if (host_only != spec.policies.end() && host_only->name != baseline) over(host_only->name);
    if (f.policy == baseline) continue;
    set(f.policy + "_levels_p99_better", static_cast<double>(f.better_pct.size()));
    set(f.policy + "_levels_p99_worse", static_cast<double>(f.worse_pct.size() + f.harmful_pct.size()));
    set(f.policy + "_levels_p99_harmful", static_cast<double>(f.harmful_pct.size()));
  }
}

void AddFigures(report::HtmlPage& page, const Part& part) {
  const auto& [spec, results] = part;
  const std::string& baseline = spec.policies[spec.baseline].name;
  if (const auto agreement = AgreementOf(results.rows))
    page.AddFigure(
        fmt::format("{} of {}", agreement->within(), agreement->points),
        fmt::format("{}p99 within a factor of {:g} of the simulator's", Of(part), Agreement::kFactor));
  for (const Finding& f : results.findings) {
    if (f.over_baseline)
      page.AddFigure(fmt::format("{:+.0f} %", 100 * (*f.over_baseline - 1)),
                     fmt::format("{}load before loss, {} over {}", Of(part), f.policy, baseline));
    page.AddFigure(f.sustained_pct ? fmt::format("{:.0f} %", *f.sustained_pct) : "none",
                   Of(part) + "sustained load, " + f.policy,
                   f.sustained_pct ? RateText(spec, results, f.policy, *f.sustained_pct) : "");
  }
}

std::string AgainstText(const std::optional<Against>& against, bool with_name) {
  if (!against) return "";
  const P99Comparison& p99 = against->p99;
  std::string text = fmt::format("{:.2f}", p99.ratio);
  if (p99.interval) text += fmt::format(" [{:.2f}, {:.2f}]", p99.interval->low, p99.interval->high);
  text += fmt::format(" {}", ToString(p99.verdict));
  return with_name ? fmt::format("{} ({})", text, against->policy) : text;
}

}  // namespace

report::Table ResultTable(const Results& results) {
  const bool predicts = AnyPredicted(results.rows);
  const bool several = results.findings.size() > 2;  // else the best of the others is the only other one
  std::vector<report::Column> columns = {
      {"load_pct", "load_pct", 0}, {"policy", "policy"}, {"rps", "rps", 0}, {"p50_ms", "p50_ms", 3}};
  if (predicts) columns.push_back({"predicted_p50_ms", "predicted", 3});
  columns.push_back({"p99_ms", "p99_ms", 3});
  if (predicts) {
    columns.push_back({"predicted_p99_ms", "predicted", 3});
    columns.push_back({"p99_measured_over_predicted", "measured/predicted", 2});
  }
  columns.push_back({"p99_ms_interval", "p99_ms interval"});
  columns.push_back({"answered_pct", "answered_pct", 2});
  if (predicts) columns.push_back({"predicted_answered_pct", "predicted", 2});
  columns.push_back({"against_baseline", "p99 against the baseline"});
  if (several) columns.push_back({"against_best", "p99 against the best other"});
  report::Table table(columns);
  for (const Row& row : results.rows) {
    const Forecast f = row.predicted.value_or(kNoForecast);
    std::vector<report::Cell> cells = {row.load_pct, row.policy, row.rps, row.p50_ms};
    if (predicts) cells.emplace_back(f.p50_ms);
    cells.emplace_back(row.p99_ms);
    if (predicts) {
      cells.emplace_back(f.p99_ms);
      cells.emplace_back(P99OverPredicted(row).value_or(kNaN));
    }
    cells.emplace_back(
        row.p99_interval ? fmt::format("{:.2f}..{:.2f}", row.p99_interval->low, row.p99_interval->high) : "");
    cells.emplace_back(row.answered_pct);
    if (predicts) cells.emplace_back(ForecastAnsweredPct(f));
    cells.emplace_back(AgainstText(row.baseline, false));
    if (several) cells.emplace_back(AgainstText(row.best, true));
    table.AddRow(std::move(cells));
  }
  return table;
}

report::Document ResultDocument(const std::string& name, const std::vector<Part>& parts) {
  report::Document document("lab." + name);
  document.SetRounds(MostSlices(parts.front().results.rows));
  for (const Part& part : parts) {
    AddRows(document, part);
    AddRatios(document, part);
  }
  return document;
}

report::HtmlPage ResultPage(const std::string& name, const std::vector<Part>& parts,
                            const report::Document& document) {
  const bool single = parts.size() == 1;
  report::HtmlPage page("Spillway lab: " + name,
                        single ? HowMeasured(parts[0].spec, parts[0].results)
                               : "One experiment after the other, each on a testbed of its own.");
  for (const Part& part : parts) AddFigures(page, part);
  for (const Part& part : parts) {
    const auto& [spec, results] = part;
    if (!single) {
      page.AddHeading(spec.app);
      page.AddText(HowMeasured(spec, results));
    }
    page.AddChart(MakeChart(spec, results, Of(part) + "99th percentile of latency",
                            {{"p99", "ms", true},
                             [](const Row& row) { return row.p99_ms; },
                             [](const Forecast& f) { return f.p99_ms; },
                             true}));
    page.AddChart(MakeChart(spec, results, Of(part) + "Requests answered in time",
                            {{"answered", "%", false, {}, 100},
                             [](const Row& row) { return row.answered_pct; },
                             ForecastAnsweredPct}));
    page.AddChart(MakeChart(spec, results, Of(part) + "Median latency",
                            {{"p50", "ms", true},
                             [](const Row& row) { return row.p50_ms; },
                             [](const Forecast& f) { return f.p50_ms; }}));
    page.AddTable("Over all slices", ResultTable(results));
    page.AddText(FindingsText(spec, results));
  }
  page.Embed(document, "report.json");
  return page;
}

}  // namespace spillway::lab
