// SPDX-License-Identifier: Apache-2.0
// What the simulator makes of a testbed, from what was measured of its units one by one. Pure.
//
// A unit becomes a queue with workers:
//   emulated   as its file says
//   no quota   as many workers as can work at a time, each taking workers / rate for a request
//   quota      as many workers, who need share / rate of CPU time for a request and get the quota in every
//              period, as the kernel gives it out (sim/cpu_time.h). They draw in the order in which they
//              begin: as much is left to do at any time, but it is not the same requests that wait.
// What a lone request takes beyond that, in the median, is the fixed part of its latency: network, client
// and wake-ups. How widely lone requests scatter beyond that (interquartile range) is taken for the spread
// of service times, and what their p99 exceeds the model's by for wake-ups that come late. Units that compute
// share the CPUs that they may use (sim/cpu_time.h), where there are fewer than workers. A neighbour comes
// as regularly as the lab's, and halves the unit's speed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "calibration.h"
#include "experiment_spec.h"
#include "findings.h"
#include "sim/scenario/scenario.h"

namespace spillway::lab {

// `calibration` has what each of the testbed's units answers alone. `cpus`: that the units may use.
sim::App AppOf(const ExperimentSpec& spec, const Calibration& calibration, size_t cpus);

// The agents' reports as the testbed has them: agents learn what their unit can do.
sim::Reports ReportsOf(const AgentSpec& agent);

// Slices as long as the lab's, many times over, with percentiles over all of them: each from a start as
// empty, but after another one, from which agents have learnt. A request that the unit drops counts as in the
// lab, with the client's timeout. apps: at least one; each is as the units were in one slice, and takes its
// turn.
Forecast Predict(const ExperimentSpec& spec, const Calibration& calibration,
                 const std::vector<sim::App>& apps, const PolicyRun& policy, double load_pct);

// Fills `predicted` of every row.
void AddPredictions(const ExperimentSpec& spec, const Calibration& calibration, size_t cpus,
                    std::vector<Row>& rows);

// Whether the simulator says what the lab measured: by point, and by the order of policies. Pure.
struct Agreement {
  static constexpr double kFactor = 1.5;  // of p99, up or down: within it they agree

  struct Deviation {
    std::string policy;
    double load_pct = 0;
    double ratio = 1;  // measured p99 over predicted
  };
  // Two policies at one load; `lower` had the lower p99 as measured, and has not as predicted.
  struct Reversal {
    double load_pct = 0;
    std::string lower, higher;
  };

  size_t points = 0;  // rows with a prediction
  std::vector<Deviation> deviations;
  size_t pairs = 0;  // of policies at a load whose measured p99 differ by more than kFactor
  std::vector<Reversal> reversals;

  [[nodiscard]] size_t within() const { return points - deviations.size(); }
  [[nodiscard]] size_t in_order() const { return pairs - reversals.size(); }
};

// Measured over predicted p99; nullopt: nothing was predicted. Two time-outs are equal.
std::optional<double> P99OverPredicted(const Row& row);

// nullopt: nothing was predicted.
std::optional<Agreement> AgreementOf(const std::vector<Row>& rows);

// "p99 within a factor of 1.5 at 17 of 20 points ...", a line each.
std::string AgreementText(const Agreement& agreement);

}  // namespace spillway::lab
