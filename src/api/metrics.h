// SPDX-License-Identifier: Apache-2.0
// Prometheus metrics of spillwayd: names, labels and units as docs/metrics.md lists them. Pure.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "health/checker.h"
#include "switch/switch.h"

namespace spillway::api {

// All that /metrics shows, as of one moment.
struct Snapshot {
  std::string version;
  std::string instance;
  double start_time_s = 0;     // Unix time
  double apply_time_s = 0;     // Unix time of the last configuration taken
  bool last_apply_ok = true;   // whether the last file offered was taken
  std::string applied_file{};  // what the running configuration was read from
  bool adopted = false;
  std::vector<switching::InterfaceView> interfaces;
  std::vector<switching::UnitView> units;
  std::vector<switching::ServiceView> services;
  switching::FlowTableView flow_table;
  spw_counters counters{};
  std::vector<health::CheckView> checks{};
};

std::vector<prometheus::MetricFamily> Families(const Snapshot& snapshot);

// Prometheus text format 0.0.4.
std::string MetricsText(const Snapshot& snapshot);

}  // namespace spillway::api
