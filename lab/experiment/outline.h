// SPDX-License-Identifier: Apache-2.0
// What a run is going to do and about how long that takes, for who starts it. Pure.
#pragma once

#include <string>
#include <vector>

#include "experiment_spec.h"

namespace spillway::lab {

// "first the capacity under wrr is searched for (usually about 35 s), then 96 slices of 1.5 s: about 4 min".
// Of several experiments, which run one after the other, all together.
[[nodiscard]] std::string Outline(const std::vector<ExperimentSpec>& specs);

}  // namespace spillway::lab
