// SPDX-License-Identifier: Apache-2.0
#include "planner/check/rehearsal.h"

#include <algorithm>
#include <cmath>

namespace spillway::planner {
namespace {

constexpr double kOverload = 1.3;  // of what a cluster can answer: every queue fills
constexpr uint64_t kSeed = 1;

double AnsweredRps(const sim::Row& row) {
  return row.rate_rps *
         (1 - static_cast<double>(row.result.dropped) / static_cast<double>(row.result.requests));
}

}  // namespace

double PooledLatencyMs(double workers, double service_ms, double utilisation, double cv) {
  // Erlang B by recurrence, which stays between 0 and 1 for any number of workers.
  const double offered = workers * utilisation;
  double blocked = 1;
  for (int k = 1; k <= static_cast<int>(workers); k++) blocked = offered * blocked / (k + offered * blocked);
  const double waits = blocked / (1 - utilisation * (1 - blocked));
  return service_ms + waits * service_ms / (workers * (1 - utilisation)) * (1 + cv * cv) / 2;
}

Rehearsal Rehearse(const ClusterModel& model, const Mix& mix, uint64_t requests, unsigned threads,
                   const sim::Progress& progress, const std::function<bool()>& stop) {
  const Workload& w = model.input().workload;
  const ServingUnits clusters[] = {UnitsOf(model, w.baseline, "baseline"), UnitsOf(model, mix, "plan")};
  const double slower = std::min(clusters[0].capacity_rps, clusters[1].capacity_rps);
  Rehearsal rehearsal;
  rehearsal.planned_slowdown = model.Evaluate(mix).slowdown;
  const double rate = w.requests.load * slower;
  for (size_t c = 0; c < 2; c++) {
    const ServingUnits& units = clusters[c];
    const sim::Scenario scenario = ScenarioOf(units, {rate, kOverload * units.capacity_rps}, requests, kSeed);
    const sim::SweepResult sweep = sim::RunSweep(
        scenario, threads,
        [&](size_t done, size_t total, const std::string& what) {
          if (progress) progress(c * total + done, 2 * total, what);
        },
        stop);
    rehearsal.interrupted = rehearsal.interrupted || sweep.interrupted;
    if (rehearsal.interrupted) return rehearsal;
    for (const sim::PolicyChoice& policy : scenario.policies) {
      Rehearsed row;
      row.cluster = units.app.name;
      row.policy = policy.name;
      row.rate_rps = rate;
      // What the plan says of both clusters: the baseline's rate, and that over the slowdown.
      row.planned_rps = c == 0 ? units.capacity_rps : clusters[0].capacity_rps / rehearsal.planned_slowdown;
      row.planned_utilisation = rate / row.planned_rps;
      const double service_ms = 1000 * units.workers / row.planned_rps;
      row.planned_mean_ms =
          PooledLatencyMs(units.workers, service_ms, row.planned_utilisation, w.requests.cv);
      for (const sim::Row& run : sweep.rows) {
        if (run.policy != policy.name) continue;
        if (run.axis > rate) {
          row.simulated_rps = AnsweredRps(run);
          continue;
        }
        row.lost = static_cast<double>(run.result.dropped) / static_cast<double>(run.result.requests);
        row.simulated_mean_ms = run.result.mean_ms;
        row.simulated_p99_ms = run.result.p99_ms;
        row.simulated_utilisation = AnsweredRps(run);
      }
      row.simulated_utilisation /= row.simulated_rps;
      rehearsal.rows.push_back(row);
    }
  }
  for (const Rehearsed& before : rehearsal.rows)
    for (const Rehearsed& after : rehearsal.rows)
      if (before.cluster == "baseline" && after.cluster == "plan" && before.policy == after.policy)
        rehearsal.simulated_slowdown.emplace_back(before.policy, before.simulated_rps / after.simulated_rps);
  return rehearsal;
}

}  // namespace spillway::planner
