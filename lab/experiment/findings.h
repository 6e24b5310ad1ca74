// SPDX-License-Identifier: Apache-2.0
// From the rounds of a sweep to its rows and to what they say of each policy. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/percentile.h"

namespace spillway::lab {

struct Measurement {
  std::string policy;
  double load_pct = 0;
  double rps = 0;  // sent
  double p50_ms = 0, p99_ms = 0;
  double answered_pct = 0;  // in time: see experiment.h
};

// What the simulator says of the same pool under the same requests: prediction.h.
struct Forecast {
  double p50_ms = 0, p99_ms = 0;
  double loss = 0;  // share, 0..1
};

// All rounds of one policy at one load.
struct Row {
  std::string policy;
  double load_pct = 0;
  report::Spread rps, p50_ms, p99_ms, answered_pct;
  std::optional<Forecast> predicted;
};

// One row per (policy, load), in order of first appearance.
std::vector<Row> Summarise(const std::vector<Measurement>& rounds);

struct Verdict {
  std::string policy;
  // The highest load that was answered; nullopt: none. Load that is answered at a higher level was not
  // lost for want of capacity at a lower one: such levels are `disturbed_pct`.
  std::optional<double> load_before_loss_pct;
  std::vector<double> disturbed_pct;
  double rps_before_loss = 0;
  // Against the first policy; nullopt for the first itself, or where it has no such load.
  std::optional<double> load_ratio;
  // Levels at which p99 lies above the first policy's: by median, and beyond noise, which is to say in
  // every round of ours above every round of theirs.
  std::vector<double> p99_above_pct, p99_clearly_above_pct;
};

// Whether every policy lost more than that at this level.
bool AllLost(const std::vector<Row>& rows, double load_pct, double tolerated_loss_pct);

std::vector<Verdict> Judge(const std::vector<Row>& rows, double tolerated_loss_pct);

// One policy's p99 against another's, level by level. The noise band is the other's rounds: a median no
// higher than theirs is at or below, one no higher than their worst round is within the band.
struct Comparison {
  std::string policy, other;
  std::vector<double> at_or_below_pct, within_band_pct, above_pct;
};
Comparison Compare(const std::vector<Row>& rows, const std::string& policy, const std::string& other);

// How far a policy's prediction was off: the median over its levels. nullopt: nothing was predicted.
struct Accuracy {
  double p50_ratio = 0, p99_ratio = 0;  // measured / predicted
};
std::optional<Accuracy> AccuracyOf(const std::vector<Row>& rows, const std::string& policy);

}  // namespace spillway::lab
