// SPDX-License-Identifier: Apache-2.0
// An experiment as its file describes it: which policies meet which loads, for how long and how often.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lab/testbed/spec.h"
#include "model/error.h"

namespace spillway::lab {

enum class LoadClient { kDnsperf, kSpillwayLoad };

struct PolicyRun {
  std::string name;  // as in the report
  spw_unit_policy unit_policy = SPW_UNIT_HEADROOM;
  BalancerPlace balancer = BalancerPlace::kSwitch;
};

struct ExperimentSpec {
  std::string name;
  std::string app;     // which part of a figure it is; empty: it stands alone
  std::string folder;  // of the file
  TestbedSpec testbed;
  std::string service;
  LoadClient client = LoadClient::kDnsperf;
  std::vector<PolicyRun> policies;  // the first is what the others are compared with
  std::vector<double> load_pct;     // of the joint capacity of all units, ascending
  double seconds = 3;               // of load per run
  double calibrate_seconds = 2;     // per kind of unit
  int rounds = 3;
  std::optional<double> capacity_rps;  // joint; nullopt: measured
  std::optional<double> unloaded_ms;   // nullopt: measured
  double tolerated_loss_pct = 1;       // "before loss": no more than this unanswered or late
  bool predict = false;                // the simulator's figures beside the measured ones
  // How a load level is reached: by more requests, or by larger ones at the first level's rate.
  enum class Grow { kRate, kWork } grow = Grow::kRate;

  // The work of a request at this level, as a factor of what the units' specifications say.
  double WorkAt(double level_pct) const { return grow == Grow::kWork ? level_pct / load_pct.front() : 1; }
  // Requests/s as a share of the joint capacity at work 1, in percent.
  double RatePctAt(double level_pct) const { return grow == Grow::kWork ? load_pct.front() : level_pct; }
};

// The same units with requests that are so many times as large. Changes synthetic and emulated units only.
[[nodiscard]] TestbedSpec WithWork(TestbedSpec testbed, double factor);

// Reads the whole lab file; `quick` applies its `quick:` part. Errors as LoadTestbed's.
[[nodiscard]] Result<ExperimentSpec> LoadExperiment(const std::string& path, bool quick);

}  // namespace spillway::lab
