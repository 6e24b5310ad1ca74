// SPDX-License-Identifier: Apache-2.0
// Measures on a testbed that stands what 100 % load is, how late an answer may be, and, for predictions, what
// each kind of unit does alone. One thread, the program's main one.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bed.h"
#include "machine_watch.h"

namespace spillway::lab {

struct Quartiles {
  double lower_ms = 0, median_ms = 0, upper_ms = 0;
  std::optional<double> p99_ms = {};  // nullopt: not measured
};

struct Calibration {
  struct Unit {
    std::string label;
    double rps = 0;
    bool measured = false;              // false: taken over from a unit of the same kind
    std::optional<Quartiles> unloaded;  // latencies at a tenth of what it can do, alone
  };
  std::vector<Unit> units;  // empty without a prediction
  double full_rps = 0;      // 100 % load: what the testbed sustains under capacity_under
  bool stated = false;      // the file or the command line says how much that is
  double unloaded_ms = 0;   // floored by the quota period
  double limit_ms = 0;      // beyond which an answer is a loss

  double TimeoutS() const { return std::max(1.0, 2 * limit_ms / 1e3); }  // of a client's request
};

// What a search for the capacity takes, usually: so many slices, each at least so many times the unloaded
// latency long, as an overload would not show in shorter ones.
inline constexpr double kSearchSlices = 18, kSearchSliceUnloaded = 100;

// Called before each step: fraction of the step's part done, and what is next.
using OnStep = std::function<void(double, const std::string&)>;

// 100 % load: by search, in slices as long as the experiment's own, or longer where an overload would not
// show in those.
[[nodiscard]] Result<Calibration> Calibrate(Bed& bed, MachineWatch& watch, const OnStep& on_step);

// CPUs that the units may use.
[[nodiscard]] size_t CpusOf(const TestbedSpec& testbed);

}  // namespace spillway::lab
