// SPDX-License-Identifier: Apache-2.0
// What the GPU-hours experiment says.
#include "scheduler/replay/reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "report/table.h"

namespace spillway::scheduler {
namespace {

std::string SavedKey(SharePolicy policy) {
  std::string name = ToString(policy);
  std::replace(name.begin(), name.end(), '-', '_');
  return fmt::format("saved_vs_{}_pct", name);
}

}  // namespace

report::Document GpuHoursDocument(const std::string& list, const std::vector<GpuHoursRun>& runs,
                                  const GpuHoursOptions& options) {
  report::Document document("sched.gpu-hours." + list);
  std::map<ShareRule, std::map<SharePolicy, double>> hours;
  for (const GpuHoursRun& run : runs) hours[run.rule][run.policy] = run.gpu_hours;
  for (const GpuHoursRun& run : runs) {
    const auto moves = static_cast<double>(run.migrations);
    nlohmann::ordered_json row = {
        {"shares", ToString(run.rule)},
        {"policy", ToString(run.policy)},
        {"list", list},
        {"busy", options.busy},
        {"gpu_hours", Rounded(run.gpu_hours, 1000)},
        {"migrations", run.migrations},
        {"gpu_hours_and_moves", Rounded(run.gpu_hours + options.moves.move_price * moves, 1000)},
        {"saved_per_move_gpu_min", nullptr},
        {"peak_gpus", run.peak_gpus},
        {"move_s", options.moves.move_seconds},
        {"moves", run.moves},
        {"move_gpu_hours", Rounded(run.move_gpu_hours, 1000)},
        {"held_twice_gpu_hours", Rounded(run.held_twice_gpu_hours, 1000)},
        {"dropped", run.dropped}};
    const auto& same_rule = hours[run.rule];
    const auto still = same_rule.find(WithoutMoves(run.policy));
    if (run.migrations > 0 && still != same_rule.end())
      row["saved_per_move_gpu_min"] = Rounded(60 * (still->second - run.gpu_hours) / moves, 100);
    for (const auto& [baseline, base] : same_rule)
      if (baseline != SharePolicy::kSpillway)
        row[SavedKey(baseline)] = base > 0 ? Rounded(100 * (1 - run.gpu_hours / base), 100) : 0;
    document.AddRow(row);
  }
  return document;
}

std::string GpuHoursText(const report::Document& document) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  const bool any_dropped = std::any_of(document.rows().begin(), document.rows().end(),
                                       [](const auto& row) { return row["dropped"] != 0; });
  for (const nlohmann::ordered_json& all : document.rows()) {
    nlohmann::ordered_json row;
    for (const char* key :
         {"shares", "policy", "gpu_hours", "saved_vs_no_sharing_pct", "saved_vs_first_fit_pct", "peak_gpus",
          "migrations", "saved_per_move_gpu_min", "dropped"})
      if (all.contains(key) && (any_dropped || key != std::string_view("dropped"))) row[key] = all[key];
    rows.push_back(row);
  }
  return ReportTable(rows).Text() +
         "\ngpu_hours: of GPUs that are on. saved_vs_X: against policy X under the same shares. "
         "saved_per_move: GPU-minutes against the same policy without moves, by migration. --json and --out "
         "have what moves cost, and what is saved against every policy.\n"
         "shares: exact: a job gets its milli; compute: a MIG slice by sevenths of the compute, rounded up; "
         "memory: by eighths of the memory.\n"
         "least-loaded has the whole cluster to spread over; static-quarters is GPUs in fixed quarters, "
         "whatever the shares.\n" +
         (any_dropped ? "dropped: jobs that found no room in the cluster, and are in no GPU-hours: rows of "
                        "which that differs do not compare.\n"
                      : "");
}

report::HtmlPage GpuHoursPage(const std::string& list, const std::vector<GpuHoursRun>& runs,
                              const report::Document& document) {
  report::HtmlPage page(
      "Spillway scheduler: GPU-hours, list " + list,
      "Jobs come and go as in the trace. How many GPUs are on, under each way to share them?");
  for (const GpuHoursRun& run : runs)
    if (run.policy == SharePolicy::kSpillway)
      page.AddFigure(fmt::format("{:.0f} h", run.gpu_hours),
                     fmt::format("GPU-hours, shares {}", ToString(run.rule)),
                     fmt::format("{} migrations", run.migrations));
  for (const ShareRule rule : {ShareRule::kExact, ShareRule::kCompute, ShareRule::kMemory}) {
    report::Chart chart;
    chart.title = fmt::format("GPUs on, shares {}", ToString(rule));
    chart.x = {"time", "% of the trace"};
    chart.y = {"GPUs on", ""};
    for (const GpuHoursRun& run : runs) {
      if (run.rule != rule) continue;
      report::Series series;
      series.name = ToString(run.policy);
      series.dashed = run.policy != SharePolicy::kSpillway;
      for (size_t k = 0; k < run.curve.size(); ++k)
        series.points.push_back({100.0 * (static_cast<double>(k) + 0.5) / kCurveParts, run.curve[k]});
      chart.series.push_back(std::move(series));
    }
    if (!chart.series.empty()) page.AddChart(chart);
  }
  page.AddTable("By policy", ReportTable(document.rows()));
  page.Embed(document, "gpu-hours.json");
  return page;
}

}  // namespace spillway::scheduler
