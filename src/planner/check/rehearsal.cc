// SPDX-License-Identifier: Apache-2.0
#include "planner/check/rehearsal.h"

#include <algorithm>
#include <cmath>

namespace spillway::planner {
namespace {

constexpr double kOverload = 1.3;  // of what a cluster can answer: every queue fills
constexpr uint64_t kSeed = 1;
// Requests that may wait at a node: at the load nobody is turned away; in overload a short queue fills before
// measuring begins, and yet no worker is idle.
constexpr uint32_t kWaitAtLoad = 1u << 20, kWaitInOverload = 16;

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
  size_t sweeps = 0;
  const auto run = [&](const sim::Scenario& scenario) {
    sim::SweepResult sweep = sim::RunSweep(
        scenario, threads,
        [&](size_t done, size_t total, const std::string& what) {
          if (progress) progress(sweeps * total + done, 4 * total, what);
        },
        stop);
    sweeps++;
    rehearsal.interrupted = rehearsal.interrupted || sweep.interrupted;
    return sweep;
  };
  for (size_t c = 0; c < 2; c++) {
    const ServingUnits& units = clusters[c];
    const sim::Scenario scenario = ScenarioOf(units, rate, kWaitAtLoad, requests, kSeed);
    const sim::SweepResult at_load = run(scenario);
    const sim::SweepResult overloaded =
        run(ScenarioOf(units, kOverload * units.capacity_rps, kWaitInOverload, requests, kSeed));
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
      for (const sim::Row& one : overloaded.rows)
        if (one.policy == policy.name) row.simulated_rps = AnsweredRps(one);
      for (const sim::Row& one : at_load.rows) {
        if (one.policy != policy.name) continue;
        row.lost = static_cast<double>(one.result.dropped) / static_cast<double>(one.result.requests);
        row.simulated_mean_ms = one.result.mean_ms;
        row.simulated_p99_ms = one.result.p99_ms;
        row.simulated_utilisation = AnsweredRps(one);
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
