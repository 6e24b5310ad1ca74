// SPDX-License-Identifier: Apache-2.0
// The measuring part of an experiment, on a testbed that stands. One thread, the program's main one.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client.h"
#include "findings.h"

namespace spillway::lab {

struct Quartiles {
  double lower_ms = 0, median_ms = 0, upper_ms = 0;
};

struct Calibration {
  struct Unit {
    std::string label;
    double rps = 0;
    bool measured = false;  // false: taken over from a unit of the same kind
    // Latencies at a tenth of what it can do, alone; where a prediction is wanted and it has an address.
    std::optional<Quartiles> unloaded;
  };
  std::vector<Unit> units;  // empty when the file states the capacity
  double joint_rps = 0;
  double unloaded_ms = 0;  // floored by the quota period
  double limit_ms = 0;     // beyond which an answer is a loss

  double TimeoutS() const { return std::max(1.0, 2 * limit_ms / 1e3); }  // of a client's request
};

// Called before each step: fraction of the step's part done, and what is next.
using OnStep = std::function<void(double, const std::string&)>;

// Each kind of unit alone, at its own address (an emulated one as it is described): the highest rate without
// loss, or, where a quota limits it, the rate that uses the quota up.
[[nodiscard]] Result<Calibration> Calibrate(const ExperimentSpec& spec, const Testbed& testbed,
                                            const OnStep& on_step);

// CPUs that the units may use.
[[nodiscard]] size_t CpusOf(const TestbedSpec& testbed);

// Load level by load level; at each, rounds of all policies in turn, the order rotating. Ends early after two
// levels at which every policy lost. The units are taken to do the work that the level wants.
[[nodiscard]] Result<std::vector<Measurement>> Sweep(const ExperimentSpec& spec,
                                                     const std::vector<double>& levels_pct, Testbed& testbed,
                                                     const Calibration& calibration, const OnStep& on_step);

}  // namespace spillway::lab
