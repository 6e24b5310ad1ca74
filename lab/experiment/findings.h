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

// All rounds of one policy at one load.
struct Row {
  std::string policy;
  double load_pct = 0;
  report::Spread rps, p50_ms, p99_ms, answered_pct;
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

}  // namespace spillway::lab
