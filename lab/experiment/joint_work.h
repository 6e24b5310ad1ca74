// SPDX-License-Identifier: Apache-2.0
// What each unit was measured to do alone, set against what all do together. Pure.
#pragma once

#include <functional>
#include <vector>

#include "calibration.h"

namespace spillway::lab {

// CPUs that a quota is worth.
[[nodiscard]] double QuotaShare(const CpuQuota& quota);

// CPU time that the units' answers took while all of them worked, at one rate (requests/s).
struct JointCost {
  double rate = 0, cpu_seconds = 0, answers = 0;
};

// Units with a quota that work at once spoil each other's caches and take turns on their CPUs: an answer
// takes more CPU time than it took of the unit alone, by the same factor for all units, as far as can be
// told. That factor, at least 1; 1 where it can't be told: a unit without a quota, or with a neighbour in it,
// whose time counts, too. alone: what each of `units` sustains alone, by its quota. costs: of slices under
// wrr; those near full_rps (100 % load) count.
[[nodiscard]] double SlowdownTogether(const std::vector<UnitSpec>& units,
                                      const std::vector<Calibration::Unit>& alone, double full_rps,
                                      const std::vector<JointCost>& costs);

// Together units sustain no more than the sum of what each does alone: where full_rps is more, the machine
// was slower when each was measured, and they are measured again, twice at most. What adds up to most is
// taken. Errors: of `measure`.
[[nodiscard]] Result<std::vector<Calibration::Unit>> MeasuredFastEnough(
    std::vector<Calibration::Unit> alone, double full_rps,
    const std::function<Result<std::vector<Calibration::Unit>>()>& measure);

}  // namespace spillway::lab
