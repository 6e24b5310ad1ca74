// SPDX-License-Identifier: Apache-2.0
#include "experiment_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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

report::Chart MakeChart(const ExperimentSpec& spec, const Results& results, const std::string& title,
                        report::Axis y, report::Spread Row::*value) {
  report::Chart chart;
  chart.title = title;
  chart.x = {"Offered load", "% of the joint capacity"};
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
  return chart;
}

}  // namespace

report::Table ResultTable(const Results& results) {
  report::Table table({{"policy", "policy"},
                       {"load_pct", "load_pct", 0},
                       {"rps", "rps", 0},
                       {"p50_ms", "p50_ms", 3},
                       {"p99_ms", "p99_ms", 3},
                       {"p99_ms_range", "p99_ms min..max"},
                       {"answered_pct", "answered_pct", 2}});
  for (const Row& row : results.rows)
    table.AddRow({row.policy, row.load_pct, row.rps.median, row.p50_ms.median, row.p99_ms.median,
                  fmt::format("{:.2f}..{:.2f}", row.p99_ms.min, row.p99_ms.max), row.answered_pct.median});
  return table;
}

report::Document ResultDocument(const ExperimentSpec& spec, const Results& results) {
  report::Document document("lab." + spec.name);
  document.SetRounds(spec.rounds);
  for (const Row& row : results.rows)
    document.AddRow({{"policy", row.policy},
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
  for (const Calibration::Unit& unit : results.calibration.units)
    document.SetRatio(unit.label + "_capacity_rps", unit.rps);
  document.SetRatio("joint_capacity_rps", results.calibration.joint_rps);
  document.SetRatio("unloaded_ms", results.calibration.unloaded_ms);
  document.SetRatio("loss_limit_ms", results.calibration.limit_ms);
  for (const Verdict& v : results.verdicts) {
    document.SetRatio(v.policy + "_load_before_loss_pct", v.load_before_loss_pct.value_or(0));
    if (v.load_ratio)
      document.SetRatio(fmt::format("{}_over_{}_load_before_loss", v.policy, results.verdicts[0].policy),
                        *v.load_ratio);
    if (&v == &results.verdicts[0]) continue;
    document.SetRatio(v.policy + "_levels_p99_above", static_cast<double>(v.p99_above_pct.size()));
    document.SetRatio(v.policy + "_levels_p99_above_beyond_noise",
                      static_cast<double>(v.p99_clearly_above_pct.size()));
  }
  return document;
}

report::HtmlPage ResultPage(const ExperimentSpec& spec, const Results& results,
                            const report::Document& document) {
  report::HtmlPage page("Spillway lab: " + spec.name, HowMeasured(spec, results.calibration));
  for (const Verdict& v : results.verdicts) {
    if (v.load_ratio)
      page.AddFigure(fmt::format("{:+.0f} %", 100 * (*v.load_ratio - 1)),
                     fmt::format("load before loss, {} over {}", v.policy, results.verdicts[0].policy));
    page.AddFigure(v.load_before_loss_pct ? fmt::format("{:.0f} %", *v.load_before_loss_pct) : "none",
                   "load before loss, " + v.policy, fmt::format("{:.0f} requests/s", v.rps_before_loss));
  }
  page.AddChart(MakeChart(spec, results, "99th percentile of latency", {"p99", "ms", true}, &Row::p99_ms));
  page.AddChart(MakeChart(spec, results, "Requests answered in time", {"answered", "%", false, {}, 100},
                          &Row::answered_pct));
  page.AddChart(MakeChart(spec, results, "Median latency", {"p50", "ms", true}, &Row::p50_ms));
  page.AddTable("Medians over the rounds", ResultTable(results));
  page.AddText(FindingsText(spec, results));
  page.Embed(document, "report.json");
  return page;
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
    if (v.load_ratio) text += fmt::format(", {:.2f} times {}", *v.load_ratio, results.verdicts[0].policy);
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
  text += fmt::format(
      "answered_pct: answered within {:.0f} ms, of all that was sent; loss is less than {:g} %. "
      "100 % load: {:.0f} requests/s.\n",
      results.calibration.limit_ms, 100 - spec.tolerated_loss_pct, results.calibration.joint_rps);
  return WhatRan(spec) + "\n" + text;
}

}  // namespace spillway::lab
