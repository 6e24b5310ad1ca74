// SPDX-License-Identifier: Apache-2.0
// What a sweep's rows say: where each policy begins to lose, how policy headroom compares with the best of
// the others, and with what is possible at all. Pure; results point into the rows.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/sweep.h"

namespace spillway::sim {

inline constexpr double kToleratedLoss = 0.01;  // a run that loses more is no answer to its load
inline constexpr double kNearBound = 1.10;      // p99 within so much of the bound's

[[nodiscard]] bool Loses(const Row& row);

// A row beside the best p99 that others reach at its point; ratio: of p99.
struct Comparison {
  const Row* own = nullptr;
  const Row* other = nullptr;
  double ratio = 0;
};

// How far one app, arrivals and reports can be loaded with a policy.
struct Endurance {
  std::string app, arrivals, reports, policy;
  // The highest axis value up to which no value lost more than is tolerated; nullopt: the lowest did.
  std::optional<double> sustained;
};

// Of each policy whose unit policy is headroom, decided by the switch. Its rivals are the switch's other
// policies and the baselines; one that loses at a point is no rival there. A policy that knows everything, or
// of which the best of several tries is taken at each point, is nothing that an operator could have chosen,
// so no rival.
struct Verdict {
  std::string policy;
  std::vector<Comparison> regrets;     // at every point where a rival does not lose
  std::vector<const Row*> lost_alone;  // of these, where it loses itself; its p99 is then of what is answered
  std::vector<const Row*> alone;       // points where it does not lose and every rival does
  std::vector<const Row*> left_out;    // points where it and every rival lose
  std::vector<Comparison> over_bound;  // where it and the bound lose nothing

  // The greatest ratio, over all apps or of one; nullptr: nothing to compare.
  [[nodiscard]] static const Comparison* Worst(const std::vector<Comparison>& comparisons,
                                               const std::string& app = "");
  // Of the ratios at all points: at least so many percent are no greater; NaN: nothing to compare.
  [[nodiscard]] double Regret(double percent) const;
  // The `count` greatest, greatest first.
  [[nodiscard]] std::vector<Comparison> WorstRegrets(size_t count) const;
  // Share of over_bound within kNearBound.
  [[nodiscard]] double NearBound() const;
};

struct Findings {
  std::vector<Endurance> endurance;
  std::vector<Verdict> verdicts;
};

[[nodiscard]] Findings Judge(const Scenario& scenario, const std::vector<Row>& rows);

}  // namespace spillway::sim
