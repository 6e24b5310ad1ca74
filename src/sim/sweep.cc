// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <thread>

#include "base/mutex.h"
#include "core/ring_build.h"

namespace spillway::sim {
namespace {

struct Try {
  size_t row;
  RunSetup setup;
  uint32_t runs;
  std::string name;
};

double ThreadSeconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

double JointRps(const App& app) {
  if (app.joint_rps > 0) return app.joint_rps;
  double sum = 0;
  for (const ServerGroup& group : app.groups)
    for (const UnitProfile& unit : group.units) sum += group.count * unit.sustained_rps();
  return sum;
}

std::vector<Try> TriesOf(const PolicyChoice& policy, const RunSetup& setup, uint32_t runs, size_t row) {
  std::vector<Try> tries;
  if (policy.decider == DeciderKind::kOmniscient) {
    for (double wait : policy.wait_weights) {
      for (double work : policy.work_weights) {
        Try& one = tries.emplace_back(row, setup, runs, fmt::format("wait {} work {}", wait, work));
        one.setup.wait_weight = wait;
        one.setup.work_weight = work;
      }
    }
  } else if (policy.unit_policy == SPW_UNIT_P4MITE) {
    for (double factor : policy.trigger.tries) {
      Try& one = tries.emplace_back(row, setup, runs, fmt::format("threshold {}", factor));
      one.setup.threshold_try = factor;
    }
  } else {
    tries.push_back({row, setup, runs, ""});
  }
  if (tries.size() == 1) tries.front().name.clear();
  return tries;
}

// The scenario's policies as the app has them: those that name no server policy take the app's.
std::vector<PolicyChoice> PoliciesOf(const Scenario& scenario, const App& app) {
  std::vector<PolicyChoice> policies = scenario.policies;
  for (PolicyChoice& policy : policies)
    if (app.own.server_policy && !policy.server_policy_named && !policy.units_as_servers)
      policy.server_policy = *app.own.server_policy;
  return policies;
}

// policies: of each app, where the plan points to.
std::vector<Try> Plan(const Scenario& scenario, std::deque<std::vector<PolicyChoice>>& policies,
                      std::vector<Row>& rows) {
  std::vector<Try> plan;
  uint64_t point = 0;
  for (const App& app : scenario.apps) {
    policies.push_back(PoliciesOf(scenario, app));
    for (const Arrivals& arrivals : scenario.ArrivalsOf(app)) {
      for (double value : scenario.ValuesOf(app)) {
        point++;  // all policies and all ways of reporting meet the same requests
        for (const Reports& reports : scenario.ReportsOf(app)) {
          for (const PolicyChoice& policy : policies.back()) {
            RunSetup setup;
            setup.app = &app;
            setup.arrivals = &arrivals;
            setup.reports = &reports;
            setup.policy = &policy;
            setup.rate_rps = scenario.axis.kind == AxisKind::kLoad   ? JointRps(app) * value / 100
                             : scenario.axis.kind == AxisKind::kRate ? value
                                                                     : scenario.axis.rate_rps;
            setup.work = scenario.axis.kind == AxisKind::kWork ? value : 1;
            setup.wire = app.own.wire.value_or(scenario.wire);
            setup.requests = app.own.requests.value_or(scenario.requests);
            setup.warm_up = app.own.warm_up.value_or(scenario.warm_up);
            setup.flows = app.own.flows.value_or(scenario.flows);
            setup.switches = scenario.switches;
            setup.seed = spw_mix64(scenario.seed) + point;
            setup.loss_over_unloaded = scenario.loss_over_unloaded;
            setup.silent_after = scenario.silent_after;
            Row row;
            row.app = app.name;
            row.arrivals = arrivals.name;
            row.reports = reports.name;
            row.policy = policy.name;
            row.axis = value;
            row.rate_rps = setup.rate_rps;
            const uint32_t runs = app.own.runs.value_or(scenario.runs);
            for (Try& one : TriesOf(policy, setup, runs, rows.size())) plan.push_back(std::move(one));
            rows.push_back(std::move(row));
          }
        }
      }
    }
  }
  return plan;
}

// Losing less is better; else the lower p99.
bool Better(const RunResult& a, const RunResult& b) {
  const bool a_loses = a.loss > 0.01, b_loses = b.loss > 0.01;
  if (a_loses != b_loses) return b_loses;
  return a.p99_ms < b.p99_ms;
}

}  // namespace

void Resize(Scenario& scenario, uint64_t requests) {
  const double factor = static_cast<double>(requests) / static_cast<double>(scenario.requests);
  const auto scale = [&](uint64_t& count) {
    count = static_cast<uint64_t>(std::llround(static_cast<double>(count) * factor));
  };
  for (App& app : scenario.apps) {
    if (app.own.requests)
      scale(*app.own.requests), *app.own.requests = std::max<uint64_t>(*app.own.requests, 1);
    if (app.own.warm_up) scale(*app.own.warm_up);
  }
  scale(scenario.warm_up);
  scenario.requests = requests;
}

SweepResult RunSweep(const Scenario& scenario, unsigned threads, const Progress& progress,
                     const std::function<bool()>& stop) {
  SweepResult sweep;
  std::vector<Row> rows;
  std::deque<std::vector<PolicyChoice>> policies;
  const std::vector<Try> plan = Plan(scenario, policies, rows);
  std::vector<RunResult> results(plan.size());
  struct Books {
    explicit Books(size_t runs) : done(runs, 0) {}
    base::Mutex mutex;
    std::vector<uint8_t> done SPILLWAY_GUARDED_BY(mutex);
    size_t finished SPILLWAY_GUARDED_BY(mutex) = 0;
    double cpu_seconds SPILLWAY_GUARDED_BY(mutex) = 0;
  } books(plan.size());
  std::atomic<size_t> next = 0;
  std::atomic<bool> stopped = false;

  auto work = [&] {
    const double before = ThreadSeconds();
    for (;;) {
      const size_t i = next++;
      if (i >= plan.size() || stopped) break;
      RunSetup setup = plan[i].setup;
      setup.stop = [&] { return stopped || (stop && stop()); };
      results[i] = RunSeveral(setup, plan[i].runs);
      if (results[i].interrupted) {
        stopped = true;
        break;
      }
      const base::MutexLock lock(books.mutex);
      books.done[i] = 1;
      books.finished++;
      const Row& row = rows[plan[i].row];
      if (progress) progress(books.finished, plan.size(), row.app + " " + row.policy);
      if (stop && stop()) stopped = true;
    }
    const base::MutexLock lock(books.mutex);
    books.cpu_seconds += ThreadSeconds() - before;
  };
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  threads = static_cast<unsigned>(std::min<size_t>(threads, plan.size()));
  std::vector<std::thread> others;
  for (unsigned t = 1; t < threads; t++) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();

  const base::MutexLock lock(books.mutex);
  sweep.cpu_seconds = books.cpu_seconds;
  std::vector<uint8_t> whole(rows.size(), 1), filled(rows.size(), 0);
  for (size_t i = 0; i < plan.size(); i++) {
    const size_t r = plan[i].row;
    whole[r] &= books.done[i];
    if (!books.done[i]) continue;
    sweep.requests += plan[i].runs * (plan[i].setup.requests + plan[i].setup.warm_up);
    if (filled[r] && !Better(results[i], rows[r].result)) continue;
    filled[r] = 1;
    rows[r].result = results[i];
    rows[r].tried = plan[i].name;
  }
  for (size_t r = 0; r < rows.size(); r++) {
    if (whole[r]) sweep.rows.push_back(std::move(rows[r]));
  }
  sweep.interrupted = stopped && books.finished < plan.size();
  return sweep;
}

}  // namespace spillway::sim
