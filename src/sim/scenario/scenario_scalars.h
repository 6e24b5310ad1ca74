// SPDX-License-Identifier: Apache-2.0
// Values of a scenario file beyond base/yaml/scalars.h: each function reads one, or reports what it expected.
// Threading: none keeps state.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/yaml/reader.h"
#include "base/yaml/scalars.h"

namespace spillway::sim {

using yaml::ReadChoice;
using yaml::Take;

inline constexpr std::chrono::hours kMaxTime{1};  // of whatever a scenario gives a time for

// At least one number, each from `least` to `most`; `ascending`: each greater than the one before.
std::optional<std::vector<double>> ReadNumbers(yaml::Problems& problems, const yaml::Field& field,
                                               double least, double most, bool ascending);

// Reports a name that is in `taken` already.
void CheckOwnName(yaml::Problems& problems, const yaml::Field& field, const std::string& name,
                  std::set<std::string>& taken);

}  // namespace spillway::sim
