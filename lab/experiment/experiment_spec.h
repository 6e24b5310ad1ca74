// SPDX-License-Identifier: Apache-2.0
// The `experiment:` part of a lab file and the options that replace its keys (--policies), read and checked:
// which policies meet which loads, for how long and how often.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "lab/testbed/spec.h"

namespace spillway::lab {

enum class LoadClient { kDnsperf, kSpillwayLoad };

// When requests leave; kBursty: as Poisson, at twice the rate for 20 ms, then not at all for 20 ms.
enum class ArrivalProcess { kConstant, kPoisson, kBursty };
[[nodiscard]] std::string ToString(ArrivalProcess arrivals);

struct PolicyRun {
  std::string name;  // as in the report
  spw_unit_policy unit_policy = SPW_UNIT_HEADROOM;
  spw_server_policy server_policy = SPW_SERVER_MAGLEV;
  BalancerPlace balancer = BalancerPlace::kSwitch;
  std::optional<AgentSpec> agent = {};  // its agents'; nullopt: the testbed's

  const AgentSpec& AgentOf(const TestbedSpec& testbed) const { return agent ? *agent : testbed.agent; }
};

struct ExperimentSpec {
  std::string name;
  std::string app;          // which part of a figure it is; empty: it stands alone
  std::string folder;       // of the file
  std::string description;  // the file's own, of its units and load
  TestbedSpec testbed;
  std::string service;
  LoadClient client = LoadClient::kDnsperf;
  ArrivalProcess arrivals = ArrivalProcess::kConstant;
  std::string path = "/1k";  // that nginx is asked for
  std::vector<PolicyRun> policies;
  size_t baseline = 0;           // the policy that the others are compared with
  std::vector<double> load_pct;  // of what the testbed sustains under capacity_under, ascending
  int further = 0;               // loads beyond the last, at most, until one at which every policy loses
  double seconds = 1.5;          // of load per slice
  double calibrate_seconds = 2;  // per kind of unit
  int rounds = 8;                // slices of each policy at each load
  uint64_t seed = 1;             // of the order of policies within a round, of arrivals and of resamples
  std::optional<double> capacity_rps;  // 100 % load; nullopt: measured
  double capacity_within_pct = 4;      // how exactly it is measured
  spw_unit_policy capacity_under = SPW_UNIT_WRR;
  std::optional<double> unloaded_ms;  // nullopt: measured
  double tolerated_loss_pct = 1;      // "before loss": no more than this unanswered or late
  bool predict = false;               // the simulator's figures beside the measured ones
  // How a load level is reached: by more requests, or by larger ones at the first level's rate.
  enum class Grow { kRate, kWork } grow = Grow::kRate;

  // At how many two policies are compared, at most.
  size_t MostLoads() const { return load_pct.size() + static_cast<size_t>(further); }
  // The work of a request at this level, as a factor of what the units' specifications say.
  double WorkAt(double level_pct) const { return grow == Grow::kWork ? level_pct / load_pct.front() : 1; }
  // Requests/s as a share of the joint capacity at work 1, in percent.
  double RatePctAt(double level_pct) const { return grow == Grow::kWork ? load_pct.front() : level_pct; }
};

// The same units with requests that are so many times as large. Changes synthetic and emulated units only.
[[nodiscard]] TestbedSpec WithWork(TestbedSpec testbed, double factor);

// What a command line asks for instead of what the file says; empty: as the file.
struct Overrides {
  std::vector<std::string> policies = {};  // unit policies, or SERVER_POLICY+UNIT_POLICY
  std::vector<double> load_pct = {};
  std::optional<int> rounds = {};
  std::optional<double> seconds = {};
  std::optional<std::string> baseline = {};  // by name
  std::optional<uint64_t> seed = {};
  std::optional<double> capacity_rps = {};
  bool predict = false;
};
// Errors: kBadInput, naming the option (--policies, --baseline, --predict).
[[nodiscard]] Result<void> Override(const Overrides& overrides, ExperimentSpec& spec);

// Reads the whole lab file; `quick` applies its `quick:` part. Errors as LoadTestbed's.
[[nodiscard]] Result<ExperimentSpec> LoadExperiment(const std::string& path, bool quick);

}  // namespace spillway::lab
