// SPDX-License-Identifier: Apache-2.0
// The measuring part of an experiment, on a testbed that stands: short slices of load, all policies in each
// round, in random order. One thread, the program's main one.
#pragma once

#include <cstdint>
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

}  // namespace spillway::lab
