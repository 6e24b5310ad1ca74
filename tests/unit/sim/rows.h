// SPDX-License-Identifier: Apache-2.0
// A sweep's results as a test wants them, without simulating.
#pragma once

#include <string>

#include "sim/sweep.h"

namespace spillway::sim {

// Two apps at loads 50 and 80 %, four policies.
inline Scenario Demo() {
  Scenario scenario;
  scenario.name = "demo";
  for (const char* name : {"dns", "knn"}) {
    App app;
    app.name = name;
    app.groups = {{1, {{"cpu"}, {"nic", SPW_KIND_SMARTNIC}}}};
    scenario.apps.push_back(app);
  }
  scenario.arrivals = {{ArrivalKind::kPoisson, "poisson", {}}};
  scenario.reports.resize(1);
  scenario.reports[0].name = "answered";
  scenario.axis.values = {50, 80};
  scenario.policies.resize(4);
  scenario.policies[0].name = "headroom";
  scenario.policies[1].name = "wrr";
  scenario.policies[1].unit_policy = SPW_UNIT_WRR;
  scenario.policies[2].name = "host-only";
  scenario.policies[2].unit_policy = SPW_UNIT_HOST_ONLY;
  scenario.policies[3].name = "bound";
  scenario.policies[3].decider = DeciderKind::kOmniscient;
  return scenario;
}

inline Row MakeRow(const std::string& app, double axis, const std::string& policy, double p99_ms,
                   double loss = 0) {
  Row row;
  row.app = app;
  row.arrivals = "poisson";
  row.reports = "answered";
  row.policy = policy;
  row.axis = axis;
  row.rate_rps = axis * 10;
  row.result.p50_ms = p99_ms / 2;
  row.result.p99_ms = p99_ms;
  row.result.loss = loss;
  row.result.limit_ms = 5;
  row.result.requests = 1000;
  row.result.share = {0.75, 0.25};
  return row;
}

// headroom's regret: dns 0.9 (of wrr) and 1.2 (of wrr, as host-only loses); knn 1.0, and alone at 80 %.
inline SweepResult DemoSweep() {
  SweepResult sweep;
  sweep.rows = {
      MakeRow("dns", 50, "headroom", 4.5),     MakeRow("dns", 50, "wrr", 5),
      MakeRow("dns", 50, "host-only", 6),      MakeRow("dns", 50, "bound", 4.4),
      MakeRow("dns", 80, "headroom", 8.4),     MakeRow("dns", 80, "wrr", 7),
      MakeRow("dns", 80, "host-only", 6, 0.2), MakeRow("dns", 80, "bound", 6),
      MakeRow("knn", 50, "headroom", 500),     MakeRow("knn", 50, "wrr", 1100),
      MakeRow("knn", 50, "host-only", 500),    MakeRow("knn", 50, "bound", 490),
      MakeRow("knn", 80, "headroom", 1000),    MakeRow("knn", 80, "wrr", 1100, 0.011),
      MakeRow("knn", 80, "host-only", 9, 0.9), MakeRow("knn", 80, "bound", 950),
  };
  sweep.cpu_seconds = 2;
  sweep.requests = 16'000;
  return sweep;
}

}  // namespace spillway::sim
