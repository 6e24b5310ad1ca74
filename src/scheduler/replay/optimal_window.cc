// SPDX-License-Identifier: Apache-2.0
#include "scheduler/replay/optimal_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "report/percentile.h"
#include "scheduler/replay/reports.h"

namespace spillway::scheduler {
namespace {

using nlohmann::ordered_json;

std::string WindowName(const WindowOptions& options) {
  return fmt::format("--window {}..{}", options.from_s, options.to_s);
}

// What the replay does is looked at, and is the same each time.
void Replay(const JobList& jobs, const WindowOptions& options, const ArrivalLook& look) {
  GpuHoursOptions hours = options.hours;
  hours.moves.move_seconds = 0;
  (void)RunGpuHours(
      jobs, SharePolicy::kSpillway, hours, [&](double now_s, const Job& job, const Cluster& pool) {
        if (now_s >= static_cast<double>(options.from_s) && now_s < static_cast<double>(options.to_s))
          look(now_s, job, pool);
      });
}

bool IsCounted(const CheckedInstant& one) {
  return one.checked.solved && one.checked.placed && one.checked.can_place;
}

ordered_json RowOf(const CheckedInstant& one) {
  const CheckedSnapshot& c = one.checked;
  const auto if_known = [](bool known, auto value) {
    return known ? ordered_json(value) : ordered_json(nullptr);
  };
  return {{"kind", "instant"},
          {"at_s", one.at_s},
          {"jobs", c.jobs},
          {"whole_gpu_jobs", one.whole_gpu_jobs},
          {"gpus", one.gpus},
          {"ours_gpus_on", if_known(c.placed, c.gpus_on)},
          {"optimum_gpus_on", if_known(c.can_place, c.optimum_gpus_on)},
          {"ours_moves", if_known(c.placed, c.moves)},
          {"optimum_moves", if_known(c.can_place, c.optimum_moves)},
          {"gap_pct", if_known(IsCounted(one), Rounded(c.GapPct(), 100))},
          {"in_time", c.solved},
          {"ours_ms", c.ours_ms},
          {"cbc_ms", c.solver_ms},
          {"fault", c.fault}};
}

}  // namespace

Result<std::vector<Instant>> InstantsIn(const JobList& jobs, const WindowOptions& options) {
  int64_t come = 0;
  Replay(jobs, options, [&](double, const Job&, const Cluster&) { ++come; });
  if (come == 0)
    return Fail(ErrorCode::kBadInput,
                WindowName(options) + ": expected a job that shares a GPU to come in it, got none");
  const int64_t wanted = std::min<int64_t>(come, options.instants);
  std::vector<Instant> instants;
  std::optional<Error> error;
  int64_t seen = 0;
  Replay(jobs, options, [&](double now_s, const Job& job, const Cluster& pool) {
    // Of `come` those are taken whose number crosses a multiple of come / wanted.
    const int64_t number = seen++;
    if (error || number * wanted / come == (number + 1) * wanted / come) return;
    instants.push_back({now_s, SnapshotOf(pool, job, options.hours.moves)});
    const size_t there = instants.back().snapshot.jobs.size();
    if (there > static_cast<size_t>(kMaxWindowJobs))
      error = Error{ErrorCode::kBadInput,
                    fmt::format("{}: expected at most {} jobs at an instant, as cbc needs it, got {} at {} s",
                                WindowName(options), kMaxWindowJobs, there, now_s)};
  });
  if (error) return tl::make_unexpected(*error);
  return instants;
}

Result<std::vector<CheckedInstant>> CheckInstants(const std::vector<Instant>& instants,
                                                  const WindowOptions& options, const ExactSolver& solver,
                                                  unsigned threads, const TellDone& tell,
                                                  const StopAsked& stop) {
  const auto all = CompareAll(
      instants.size(), [&](size_t i) { return instants[i].snapshot; }, options.hours.moves, solver, threads,
      tell, stop);
  if (!all) return tl::make_unexpected(all.error());
  std::vector<CheckedInstant> checked;
  for (const CheckedAt& one : *all) {
    const Snapshot& snapshot = instants[one.index].snapshot;
    CheckedInstant instant{instants[one.index].at_s, 0, 0, one.checked};
    for (const Job& job : snapshot.jobs) instant.whole_gpu_jobs += job.Fractional() ? 0 : 1;
    for (const Node& node : snapshot.nodes) instant.gpus += node.gpus;
    checked.push_back(std::move(instant));
  }
  return checked;
}

report::Document WindowDocument(const std::string& list, const WindowOptions& options,
                                const std::vector<CheckedInstant>& checked) {
  report::Document document("sched.optimal-window." + list);
  std::vector<double> gaps, ours_ms, solver_ms;
  int most_jobs = 0, solved = 0, same = 0, faults = 0, ours_on = 0, optimum_on = 0;
  for (const CheckedInstant& one : checked) {
    document.AddRow(RowOf(one));
    most_jobs = std::max(most_jobs, one.checked.jobs);
    solved += one.checked.solved ? 1 : 0;
    same += one.checked.Same() ? 1 : 0;
    faults += one.checked.fault.empty() ? 0 : 1;
    ours_ms.push_back(one.checked.ours_ms);
    solver_ms.push_back(one.checked.solver_ms);
    if (!IsCounted(one)) continue;
    gaps.push_back(one.checked.GapPct());
    ours_on += one.checked.gpus_on;
    optimum_on += one.checked.optimum_gpus_on;
  }
  const auto instants = static_cast<int>(checked.size());
  const double hours_each = static_cast<double>(options.to_s - options.from_s) / 3600 / std::max(instants, 1);
  document.AddRow({{"kind", "window"},
                   {"list", list},
                   {"shares", ToString(options.hours.rule)},
                   {"busy", options.hours.busy},
                   {"from_s", options.from_s},
                   {"to_s", options.to_s},
                   {"instants", instants},
                   {"most_jobs", most_jobs},
                   {"in_time", solved},
                   {"not_in_time", instants - solved},
                   {"same", same},
                   {"faults", faults},
                   {"ours_gpu_hours", Rounded(ours_on * hours_each, 1000)},
                   {"optimum_gpu_hours", Rounded(optimum_on * hours_each, 1000)},
                   {"median_gap_pct", Rounded(report::Median(gaps), 100)},
                   {"worst_gap_pct", Rounded(report::PercentileOf(gaps, 100), 100)},
                   {"ours_median_ms", report::Median(ours_ms)},
                   {"cbc_median_ms", report::Median(solver_ms)}});
  if (optimum_on > 0)
    document.SetRatio("ours_over_optimum_gpu_hours", static_cast<double>(ours_on) / optimum_on);
  return document;
}

std::string WindowText(const report::Document& document) {
  ordered_json instants = ordered_json::array(), window = ordered_json::array();
  for (ordered_json row : document.rows()) {
    const bool instant = row["kind"] == "instant";
    row.erase("kind");
    if (instant && row["fault"] == "") row.erase("fault");
    (instant ? instants : window).push_back(row);
  }
  return fmt::format(
      "{}\n{}\ngap: what ours costs more than the optimum, GPUs that are on and moves at --move-price, in %. "
      "An "
      "instant stands for an equal part of the window. What cbc did not solve in time is in no GPU-hours, "
      "no median and no gap, and does not count as the same.\n",
      ReportTable(instants).Text(), ReportTable(window).Text());
}

}  // namespace spillway::scheduler
