// SPDX-License-Identifier: Apache-2.0
// The measuring part of an experiment, on a testbed that stands. One thread, the program's main one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client.h"
#include "findings.h"

namespace spillway::lab {

struct Calibration {
  struct Unit {
    std::string label;
    double rps = 0;
    bool measured = false;  // false: taken over from a unit of the same kind
  };
  std::vector<Unit> units;  // empty when the file states the capacity
  double joint_rps = 0;
  double unloaded_ms = 0;  // floored by the quota period
  double limit_ms = 0;     // beyond which an answer is a loss
};

// Called before each step: fraction of the step's part done, and what is next.
using OnStep = std::function<void(double, const std::string&)>;

// Each kind of unit alone, at its own address (an emulated one as it is described): the highest rate without
// loss, or, where a quota limits it, the rate that uses the quota up.
[[nodiscard]] Result<Calibration> Calibrate(const ExperimentSpec& spec, const Testbed& testbed,
                                            const OnStep& on_step);

// Level by level; at each, rounds of all policies in turn, the order rotating. Ends early after two levels
// at which every policy lost.
[[nodiscard]] Result<std::vector<Measurement>> Sweep(const ExperimentSpec& spec, Testbed& testbed,
                                                     const Calibration& calibration, const OnStep& on_step);

}  // namespace spillway::lab
