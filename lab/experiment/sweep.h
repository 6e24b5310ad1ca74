// SPDX-License-Identifier: Apache-2.0
// The measuring part of an experiment, on a testbed that stands: short slices of load, all policies in each
// round, in random order; rounds in which the machine was slow (slow_slices.h) are measured again. One
// thread, the program's main one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "calibration.h"
#include "findings.h"

namespace spillway::lab {

// Plays a slice, and again while the machine disturbed it.
[[nodiscard]] Result<Slice> PlaySlice(const Bed& bed, MachineWatch& watch, double rate, double seconds,
                                      double timeout_s, uint64_t seed);

struct Swept {
  std::vector<Row> rows;
  bool interrupted = false;  // by Ctrl-C: rows of the rounds that were finished, which may be none
};

// Load level by load level; at each, `spec.rounds` rounds of all policies, in an order drawn anew for each
// round from `spec.seed`. All policies of a round meet the same arrivals. Ends early after two levels at
// which every policy lost; goes on beyond the last level as
// `spec.further` says. Rounds in which the machine was slow (slow_slices.h) are played again at the end of
// their level. The units are taken to do the work that the level wants.
[[nodiscard]] Result<Swept> Sweep(Bed& bed, MachineWatch& watch, const std::vector<double>& levels_pct,
                                  const Calibration& calibration, const OnStep& on_step);

// A slice of each policy, in the level's order of policies. After Ctrl-C some may be empty.
using PlayRound = std::function<Result<std::vector<Slice>>(size_t round)>;

// Plays slow rounds of a level again, the slowest first, each up to kMaxReplays times, in all up to a quarter
// of the level's; of each the quicker one is kept, whole: policies are compared within a round, and a slice
// that was taken at another time, when the machine was quicker, would be favoured. Ctrl-C ends it. Errors: of
// `play`.
[[nodiscard]] Result<void> PlaySlowAgain(Level& level, const PlayRound& play);

}  // namespace spillway::lab
