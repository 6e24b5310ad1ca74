// SPDX-License-Identifier: Apache-2.0
// What the simulator and the lab found where P4Mite's paper (ICNP 2022) has a figure: its points, in the
// paper's units. Pure, but for SimulateAsPublished, which computes for some seconds.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.h"

namespace spillway::lab {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// One policy at one place of a figure's x axis: requests/s (4a, 6), Gflop per request (4b), load in percent
// (5).
struct PaperPoint {
  std::string policy;  // "p4mite-300": by its threshold
  double x = 0;
  double p50_ms = kUnknown, mean_ms = kUnknown, p99_ms = kUnknown;
  double loss = 0;              // share, 0..1
  double offloaded = kUnknown;  // share of requests that the SmartNIC got, 0..1
};

// A figure's points under one reading of what the paper leaves open.
struct PaperCurves {
  std::string reading;
  std::vector<PaperPoint> points;

  // The policy's point nearest to x, if it is within `reach`.
  [[nodiscard]] const PaperPoint* Near(const std::string& policy, double x, double reach) const;
  [[nodiscard]] std::vector<const PaperPoint*> Of(const std::string& policy) const;  // ascending
  // The highest x up to which no more than 1 % was lost; nullopt: lost at the lowest, or no such policy.
  [[nodiscard]] std::optional<double> Sustained(const std::string& policy) const;
  // The lowest x at which more was lost; nullopt: none.
  [[nodiscard]] std::optional<double> LosesFrom(const std::string& policy) const;
};

struct PaperFigure {
  std::vector<PaperCurves> readings;             // the first is as calibrated
  double unit_gflops[2] = {kUnknown, kUnknown};  // table I: what host and SmartNIC can do
  double nic_share = kUnknown;                   // of the host's rate
  bool latencies_comparable = true;              // false: the units have the paper's ratios, not its times
};

// By the paper's number: "4a", "4b", "5a", "5b", "5c", "6".
using PaperFigures = std::map<std::string, PaperFigure>;

// The scenarios that draw the figures, in the folder of the simulator's examples.
struct PaperScenario {
  std::string figure, file, app;
  std::string arrivals;  // "constant"; empty: Poisson
  std::string reading;   // in words; empty: as calibrated
};
[[nodiscard]] const std::vector<PaperScenario>& PaperScenarios();

// Runs one app of a scenario as the paper ran its testbed: 30 seconds each from an idle start. Medians of
// `repeats` runs with requests of their own. Only the paper's policies. stop(): asked between runs.
[[nodiscard]] PaperCurves SimulateAsPublished(const sim::Scenario& scenario, const PaperScenario& which,
                                              int repeats, const std::function<bool()>& stop);

// What Table I says of the scenario's first server.
void ReadUnits(const sim::Scenario& scenario, PaperFigure& figure);

// Adds the lab's document of experiment fig4a, fig4b, fig5 or fig6. `emulated`: its units are those that are
// calibrated from the paper, some with all times divided.
void AddLabDocument(const std::string& experiment, const nlohmann::json& document, bool emulated,
                    PaperFigures& figures);

}  // namespace spillway::lab
