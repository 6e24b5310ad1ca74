// SPDX-License-Identifier: Apache-2.0
// From the slices of a sweep to its rows (latencies, the client's lateness) and what they say of each policy.
// When p99 is better or worse is paired_bootstrap.h's. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client.h"
#include "machine_watch.h"
#include "paired_bootstrap.h"
#include "slow_slices.h"

namespace spillway::lab {

// One policy under one load for a short time.
struct Slice {
  Sample sample;
  Disturbance disturbance;  // of the machine, as it was last played
  int replays =
      0;  // how often it was played again because the machine disturbed it, or was slow in its round
  std::vector<UnitWork> units = {};  // in the testbed's order

  [[nodiscard]] double CpuSeconds() const {
    double sum = 0;
    for (const UnitWork& unit : units) sum += unit.cpu_seconds;
    return sum;
  }
};

// What the units did in a slice, and which share of what they were sent was answered.
struct SliceWork {
  std::vector<UnitWork> units;
  double answered = 1;
};

// What the simulator says of the same pool under the same requests: prediction.h.
struct Forecast {
  double p50_ms = 0, p99_ms = 0;
  double loss = 0;  // share, 0..1
};

// A row's p99 against that of another policy at the same load.
struct Against {
  std::string policy;
  P99Comparison p99;
};

// All slices of one policy at one load.
struct Row {
  std::string policy;
  double load_pct = 0;
  double rps = 0;  // sent
  double p50_ms = 0, p99_ms = 0, answered_pct = 0;
  double median_slice_answered_pct = 0;
  std::optional<Interval> p99_interval;
  int slices = 0;
  bool interrupted = false;     // fewer slices than were asked for: Ctrl-C came before
  int replays = 0;              // of all slices together
  int disturbed = 0;            // slices that were disturbed each time they were played
  int slow = 0;                 // slices in which the machine was slower than in others of the row
  double cpu_ms = 0;            // CPU time that the units had for an answer
  std::vector<SliceWork> work;  // of each slice with answers
  // The client: what it sent of what it should have, and by how much it was late (p99 of the worst slice;
  // nullopt: it does not say).
  double sent_pct = 100;
  std::optional<double> late_p99_ms;
  std::optional<Against> baseline;  // nullopt: it is the baseline
  std::optional<Against> best;      // the one of the others with the lowest p99; nullopt: there are no others
  std::optional<Forecast> predicted;
};

struct Level {
  double load_pct = 0;
  double limit_ms = 0, timeout_s = 1;
  std::vector<std::string> policies;
  std::vector<std::vector<Slice>> slices;  // [policy][round]
};

// By [slice][unit].
[[nodiscard]] std::vector<std::vector<UnitWork>> WorkOf(const std::vector<Slice>& slices);

// Of a level that was interrupted, the rounds that all policies finished stay. False: there is none.
[[nodiscard]] bool KeepWholeRounds(Level& level);

// One row per policy. `baseline`: index of the policy that the others are compared with. loads: levels of the
// sweep, whose verdicts hold together (paired_bootstrap.h).
std::vector<Row> Summarise(const Level& level, size_t baseline, uint64_t seed, size_t loads = 1);

// Whether every policy lost more than that at this level, in half of its slices.
bool AllLost(const std::vector<Row>& rows, double load_pct, double tolerated_loss_pct);

// What a policy's rows say of it.
struct Finding {
  std::string policy;
  // The highest load up to which all was answered; nullopt: none. A level that lost some below one that
  // answered more is taken together with it; if the two answered enough, the lower is among `disturbed_pct`.
  std::optional<double> sustained_pct;
  double sustained_rps = 0;
  std::vector<double> disturbed_pct;
  // Where half of its slices lose more than is tolerated: between two levels, by what the median slice
  // answered at the higher, as an overload lets a slice's requests be later and later; the highest if half of
  // them lose nowhere; nullopt: at the lowest already.
  std::optional<double> loses_from_pct;
  double all_answered_pct = 0;  // the level below that
  // Of the lowest level that half of the slices lose some at; nullopt: there is none.
  struct Loss {
    double load_pct = 0;
    double overload = 0;  // times what is worked off; infinite if nothing is answered
  };
  std::optional<Loss> first_loss;
  // LoadRatio to the baseline, and to the best policy, at most 1.
  std::optional<double> over_baseline, over_best;
  // Levels by the verdict on its p99 against the baseline's; unjudged: too few rounds for one.
  std::vector<double> better_pct, same_pct, worse_pct, harmful_pct, unjudged_pct;
};

// At how many times the other's load a policy begins to lose. Where both begin at one level, by how
// overloaded they are there: it was the same machine for both. nullopt: unknown, as one loses at the lowest
// level, or none at any.
std::optional<double> LoadRatio(const Finding& finding, const Finding& other);

// In the rows' order of policies; `baseline` is one of them. grace: by how much an answer may be late, as a
// share of a slice.
std::vector<Finding> Judge(const std::vector<Row>& rows, const std::string& baseline,
                           double tolerated_loss_pct, double grace);

const Row* FindRow(const std::vector<Row>& rows, const std::string& policy, double load_pct);

// How far a policy's prediction was off: the median over its levels. nullopt: nothing was predicted.
struct Accuracy {
  double p50_ratio = 0, p99_ratio = 0;  // measured / predicted
};
std::optional<Accuracy> AccuracyOf(const std::vector<Row>& rows, const std::string& policy);

}  // namespace spillway::lab
