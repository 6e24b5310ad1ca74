// SPDX-License-Identifier: Apache-2.0
// What each unit was measured to do alone, set against what all do together. Pure.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "calibration.h"
#include "slow_slices.h"

namespace spillway::lab {

// CPUs that a quota is worth.
[[nodiscard]] double QuotaShare(const CpuQuota& quota);

// Of all servers, in the testbed's order, which is the calibration's.
[[nodiscard]] std::vector<UnitSpec> UnitsOf(const TestbedSpec& testbed);

// CPU time that the units' answers took while all of them worked, at one rate (requests/s).
struct JointCost {
  double rate = 0, cpu_seconds = 0, answers = 0;
};

// What an answer takes of CPU time where wrr spreads the requests, over what it took of the units alone, by
// the same factor for all units, as far as can be told: units with a quota that work at once spoil each
// other's caches and take turns on their CPUs, and the machine's speed is not the same in all minutes.
// nullopt: it can't be told, of a unit without a quota, or with a neighbour in it, whose time counts, too, or
// without answers. alone: what each of `units` sustains alone, by its quota.
[[nodiscard]] std::optional<double> CostOverAlone(const std::vector<UnitSpec>& units,
                                                  const std::vector<Calibration::Unit>& alone,
                                                  double cpu_seconds, double answers);

// The same of one slice under any policy, unit by unit, by the packets that each got. `answered`: the share
// of them; the others cost nothing. A unit of which it can't be told has the factor of those together of
// which it can. nullopt: there are none, or the factor is so large or small that something else went on than
// that the machine was slower.
[[nodiscard]] std::optional<std::vector<double>> CostsOverAlone(const std::vector<UnitSpec>& units,
                                                                const std::vector<Calibration::Unit>& alone,
                                                                const std::vector<UnitWork>& work,
                                                                double answered);

// The factor of CostOverAlone by slices under wrr, of which those near full_rps (100 % load) count; at least
// 1, as 1 where it can't be told.
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
