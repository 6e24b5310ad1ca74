// SPDX-License-Identifier: Apache-2.0
#include "experiment_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace spillway::lab {
namespace {

std::string Loads(const std::vector<double>& loads) {
  std::vector<std::string> words;
  for (double load : loads) words.push_back(fmt::format("{:.0f} %", load));
  return fmt::format("{}", fmt::join(words, ", "));
}

bool HasQuota(const ExperimentSpec& spec) {
  for (const ServerSpec& server : spec.testbed.servers)
    for (const UnitSpec& unit : server.units)
      if (unit.quota) return true;
  return false;
}

// What ran: "2 servers of 2 units each, dnsperf as client. blind is unit policy host-only, ...".
std::string WhatRan(const ExperimentSpec& spec) {
  std::string policies;
  for (const PolicyRun& p : spec.policies)
    policies += fmt::format("{}{} is unit policy {}{}", policies.empty() ? "" : ", ", p.name,
                            model::ToString(p.unit_policy),
                            p.balancer == BalancerPlace::kNic ? " by a balancer on the NIC" : "");
  const bool dnsperf = spec.client == LoadClient::kDnsperf;
  return fmt::format("{} servers of {} units each, {} as client. {}.", spec.testbed.servers.size(),
                     spec.testbed.servers.front().units.size(), dnsperf ? "dnsperf" : "spillway-load",
                     policies);
}

std::string HowMeasured(const ExperimentSpec& spec, const Calibration& c) {
  std::string units;
  for (const Calibration::Unit& unit : c.units)
    units += fmt::format("{}{} {:.0f}/s{}", units.empty() ? "" : ", ", unit.label, unit.rps,
                         unit.measured ? "" : " (taken over from its like)");
  return WhatRan(spec) + " " +
         fmt::format(
             "100 % load is {:.0f} requests/s, what all units answer together{}. Runs of {:.1f} s, {} rounds "
             "with "
             "the "
             "policies in turn; medians, and the rounds' range as a band. A request is lost if it gets no "
             "answer, "
             "or "
             "one after more than {:.1f} ms: ten times the unloaded latency of {:.1f} ms{}. In the "
             "percentiles a "
             "request without an answer stands for the client's timeout.",
             c.joint_rps, units.empty() ? "" : " (alone: " + units + ")", spec.seconds, spec.rounds,
             c.limit_ms, c.unloaded_ms,
             HasQuota(spec) ? " (taken to be at least the period of the units' CPU quotas)" : "");
}

// What the simulator says of the same quantity, in the chart's unit.
using Predicted = double (*)(const Forecast&);

report::Chart MakeChart(const ExperimentSpec& spec, const Results& results, const std::string& title,
                        report::Axis y, report::Spread Row::*value, Predicted predicted) {
  report::Chart chart;
  chart.title = title;
  if (spec.predict) chart.note = "Measured: solid, with the rounds' range. Simulated: dashed.";
  chart.x = {spec.grow == ExperimentSpec::Grow::kWork ? "Offered load, by larger requests" : "Offered load",
             "% of the joint capacity"};
  chart.y = std::move(y);
  chart.loss_label = fmt::format("more than {:g} % lost", spec.tolerated_loss_pct);
  for (const PolicyRun& policy : spec.policies) {
    report::Series series;
    series.name = policy.name;
    for (const Row& row : results.rows)
      if (row.policy == policy.name) {
        const report::Spread& s = row.*value;
        series.points.push_back(
            {row.load_pct, s.median, s.min, s.max, row.answered_pct.median < 100 - spec.tolerated_loss_pct});
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
        series.points.push_back({row.load_pct, predicted(*row.predicted)});
    chart.series.push_back(std::move(series));
  }
  return chart;
}

constexpr Forecast kNoForecast{std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::quiet_NaN()};

double AnsweredPct(const Forecast& forecast) { return 100 * (1 - forecast.loss); }

bool AnyPredicted(const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.predicted.has_value(); });
}

// "dns: ", before a chart's title.
std::string Of(const Part& part) { return part.spec.app.empty() ? "" : part.spec.app + ": "; }

void AddRows(report::Document& document, const Part& part) {
  for (const Row& row : part.results.rows) {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    if (!part.spec.app.empty()) json["app"] = part.spec.app;
    json.update({{"policy", row.policy},
                 {"load_pct", row.load_pct},
                 {"rps", row.rps.median},
                 {"p50_ms", row.p50_ms.median},
                 {"p99_ms", row.p99_ms.median},
                 {"answered_pct", row.answered_pct.median},
                 {"p50_ms_min", row.p50_ms.min},
                 {"p50_ms_max", row.p50_ms.max},
                 {"p99_ms_min", row.p99_ms.min},
                 {"p99_ms_max", row.p99_ms.max},
                 {"answered_pct_min", row.answered_pct.min},
                 {"answered_pct_max", row.answered_pct.max}});
    if (row.predicted)
      json.update({{"predicted_p50_ms", row.predicted->p50_ms},
                   {"predicted_p99_ms", row.predicted->p99_ms},
                   {"predicted_loss", row.predicted->loss}});
    if (part.spec.grow == ExperimentSpec::Grow::kWork) json["work"] = part.spec.WorkAt(row.load_pct);
    document.AddRow(std::move(json));
  }
}

void AddRatios(report::Document& document, const Part& part) {
  const auto& [spec, results] = part;
  const auto set = [&, before = spec.app.empty() ? "" : spec.app + "_"](
                       const std::string& name, double value) { document.SetRatio(before + name, value); };
  for (const Calibration::Unit& unit : results.calibration.units) set(unit.label + "_capacity_rps", unit.rps);
  set("joint_capacity_rps", results.calibration.joint_rps);
  set("unloaded_ms", results.calibration.unloaded_ms);
  set("loss_limit_ms", results.calibration.limit_ms);
  for (const Verdict& v : results.verdicts) {
    set(v.policy + "_load_before_loss_pct", v.load_before_loss_pct.value_or(0));
    if (auto off = AccuracyOf(results.rows, v.policy)) {
      set(v.policy + "_p50_measured_over_predicted", off->p50_ratio);
      set(v.policy + "_p99_measured_over_predicted", off->p99_ratio);
    }
    if (v.load_ratio)
      set(fmt::format("{}_over_{}_load_before_loss", v.policy, results.verdicts[0].policy), *v.load_ratio);
    if (&v == &results.verdicts[0]) continue;
    set(v.policy + "_levels_p99_above", static_cast<double>(v.p99_above_pct.size()));
    set(v.policy + "_levels_p99_above_beyond_noise", static_cast<double>(v.p99_clearly_above_pct.size()));
  }
}

void AddFigures(report::HtmlPage& page, const Part& part) {
  const auto& verdicts = part.results.verdicts;
  for (const Verdict& v : verdicts) {
    if (v.load_ratio)
      page.AddFigure(fmt::format("{:+.0f} %", 100 * (*v.load_ratio - 1)),
                     fmt::format("{}load before loss, {} over {}", Of(part), v.policy, verdicts[0].policy));
    page.AddFigure(v.load_before_loss_pct ? fmt::format("{:.0f} %", *v.load_before_loss_pct) : "none",
                   Of(part) + "load before loss, " + v.policy,
                   fmt::format("{:.0f} requests/s", v.rps_before_loss));
  }
}

// Spillway's own policy against a switch that is blind to accelerators, and one that knows capacities only.
std::vector<Comparison> ComparisonsOf(const ExperimentSpec& spec, const std::vector<Row>& rows) {
  std::vector<Comparison> all;
  for (const PolicyRun& own : spec.policies) {
    if (own.unit_policy != SPW_UNIT_HEADROOM) continue;
    for (const PolicyRun& other : spec.policies)
      if (other.unit_policy == SPW_UNIT_HOST_ONLY || other.unit_policy == SPW_UNIT_WRR)
        all.push_back(Compare(rows, own.name, other.name));
  }
  return all;
}

std::string ComparisonText(const Comparison& c, int rounds) {
  std::string text = fmt::format("{} against {}, p99:", c.policy, c.other);
  if (!c.at_or_below_pct.empty()) text += fmt::format(" at or below at {};", Loads(c.at_or_below_pct));
  if (!c.within_band_pct.empty())
    text += fmt::format(" above, but within the noise band, at {};", Loads(c.within_band_pct));
  if (!c.above_pct.empty())
    text += fmt::format(" above{} at {};", rounds > 1 ? " the noise band" : "", Loads(c.above_pct));
  return text + (rounds > 1
                     ? fmt::format(" the band reaches up to {}'s worst of {} rounds.\n", c.other, rounds)
                     : " one round, so no noise band.\n");
}

}  // namespace

report::Table ResultTable(const Results& results) {
  const bool predicts = AnyPredicted(results.rows);
  std::vector<report::Column> columns = {
      {"policy", "policy"}, {"load_pct", "load_pct", 0}, {"rps", "rps", 0}, {"p50_ms", "p50_ms", 3}};
  if (predicts) columns.push_back({"predicted_p50_ms", "predicted", 3});
  columns.push_back({"p99_ms", "p99_ms", 3});
  if (predicts) columns.push_back({"predicted_p99_ms", "predicted", 3});
  columns.push_back({"p99_ms_range", "p99_ms min..max"});
  columns.push_back({"answered_pct", "answered_pct", 2});
  if (predicts) columns.push_back({"predicted_answered_pct", "predicted", 2});
  report::Table table(columns);
  for (const Row& row : results.rows) {
    const Forecast f = row.predicted.value_or(kNoForecast);
    std::vector<report::Cell> cells = {row.policy, row.load_pct, row.rps.median, row.p50_ms.median};
    if (predicts) cells.emplace_back(f.p50_ms);
    cells.emplace_back(row.p99_ms.median);
    if (predicts) cells.emplace_back(f.p99_ms);
    cells.emplace_back(fmt::format("{:.2f}..{:.2f}", row.p99_ms.min, row.p99_ms.max));
    cells.emplace_back(row.answered_pct.median);
    if (predicts) cells.emplace_back(AnsweredPct(f));
    table.AddRow(std::move(cells));
  }
  return table;
}

report::Document ResultDocument(const std::string& name, const std::vector<Part>& parts) {
  report::Document document("lab." + name);
  document.SetRounds(parts.front().spec.rounds);
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
                        single ? HowMeasured(parts[0].spec, parts[0].results.calibration)
                               : "One experiment after the other, each on a testbed of its own.");
  for (const Part& part : parts) AddFigures(page, part);
  for (const Part& part : parts) {
    const auto& [spec, results] = part;
    if (!single) {
      page.AddHeading(spec.app);
      page.AddText(HowMeasured(spec, results.calibration));
    }
    page.AddChart(MakeChart(spec, results, Of(part) + "99th percentile of latency", {"p99", "ms", true},
                            &Row::p99_ms, [](const Forecast& f) { return f.p99_ms; }));
    page.AddChart(MakeChart(spec, results, Of(part) + "Requests answered in time",
                            {"answered", "%", false, {}, 100}, &Row::answered_pct, AnsweredPct));
    page.AddChart(MakeChart(spec, results, Of(part) + "Median latency", {"p50", "ms", true}, &Row::p50_ms,
                            [](const Forecast& f) { return f.p50_ms; }));
    page.AddTable("Medians over the rounds", ResultTable(results));
    page.AddText(FindingsText(spec, results));
  }
  page.Embed(document, "report.json");
  return page;
}

std::string ResultText(const std::vector<Part>& parts) {
  std::string text;
  for (const Part& part : parts) {
    if (!part.spec.app.empty()) text += part.spec.app + "\n";
    text += ResultTable(part.results).Text() + "\n" + FindingsText(part.spec, part.results);
    if (&part != &parts.back()) text += "\n";
  }
  return text;
}

// Against a balancer on the NIC: before the switch gives out, the client and the units of this machine do.
const char* AtLeast(const ExperimentSpec& spec, const Verdict& v, const Verdict& first) {
  const auto place = [&](const std::string& name) {
    const auto policy = std::find_if(spec.policies.begin(), spec.policies.end(),
                                     [&](const PolicyRun& p) { return p.name == name; });
    return policy == spec.policies.end() ? BalancerPlace::kSwitch : policy->balancer;
  };
  return place(first.policy) == BalancerPlace::kNic && place(v.policy) == BalancerPlace::kSwitch ? "at least "
                                                                                                 : "";
}

std::string Noise(const ExperimentSpec& spec, const Verdict& v) {
  if (spec.rounds == 1) return "; one round does not say whether by more than noise";
  if (v.p99_clearly_above_pct.empty()) return ", nowhere by more than the rounds' spread";
  return ", by more than the rounds' spread at " + Loads(v.p99_clearly_above_pct);
}

std::string FindingsText(const ExperimentSpec& spec, const Results& results) {
  std::string text;
  for (const Verdict& v : results.verdicts) {
    if (v.load_before_loss_pct)
      text += fmt::format(
          "{}: up to {:.0f} % load{} before loss ({:.0f} requests/s)", v.policy, *v.load_before_loss_pct,
          *v.load_before_loss_pct == spec.load_pct.back() ? ", the highest tried," : "", v.rps_before_loss);
    else
      text += fmt::format("{}: loss at the lowest load already", v.policy);
    if (v.load_ratio)
      text += fmt::format(", {}{:.2f} times {}", AtLeast(spec, v, results.verdicts[0]), *v.load_ratio,
                          results.verdicts[0].policy);
    if (!v.disturbed_pct.empty())
      text += fmt::format("; at {} it lost some, though more was answered later: the machine, not the load",
                          Loads(v.disturbed_pct));
    text += ".\n";
    if (&v == &results.verdicts[0]) continue;
    if (v.p99_above_pct.empty())
      text += fmt::format("  Its p99 is at or below {}'s at every load.\n", results.verdicts[0].policy);
    else
      text += fmt::format("  Its p99 lies above {}'s at {}{}.\n", results.verdicts[0].policy,
                          Loads(v.p99_above_pct), Noise(spec, v));
  }
  for (const Comparison& c : ComparisonsOf(spec, results.rows)) text += ComparisonText(c, spec.rounds);
  std::string off;
  for (const PolicyRun& policy : spec.policies)
    if (auto a = AccuracyOf(results.rows, policy.name))
      off += fmt::format("{}{} {:.2f} and {:.2f}", off.empty() ? "" : ", ", policy.name, a->p50_ratio,
                         a->p99_ratio);
  if (!off.empty()) text += "Measured over simulated, median of the levels, p50 and p99: " + off + ".\n";
  text += fmt::format(
      "answered_pct: answered within {:.0f} ms, of all that was sent; loss is less than {:g} %. "
      "100 % load: {:.0f} requests/s.\n",
      results.calibration.limit_ms, 100 - spec.tolerated_loss_pct, results.calibration.joint_rps);
  return WhatRan(spec) + "\n" + text;
}

}  // namespace spillway::lab
