// SPDX-License-Identifier: Apache-2.0
// Values of a scenario file beyond model/scalars.h: each function reads one, or reports what it expected.
// Threading: none keeps state.
#pragma once

#include <chrono>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/reader.h"
#include "model/scalars.h"

namespace spillway::sim {

using model::ReadChoice;
using model::Take;

inline constexpr std::chrono::hours kMaxTime{1};  // of whatever a scenario gives a time for

// At least one number, each from `least` to `most`; `ascending`: each greater than the one before.
std::optional<std::vector<double>> ReadNumbers(model::Problems& problems, const model::Field& field,
                                               double least, double most, bool ascending);

// Reports a name that is in `taken` already.
void CheckOwnName(model::Problems& problems, const model::Field& field, const std::string& name,
                  std::set<std::string>& taken);

// Reports keys that mean nothing here: "expected only <when>, got it here".
void RefuseKeys(model::Problems& problems, const model::MapReader& map,
                std::initializer_list<std::string_view> keys, std::string_view when);

}  // namespace spillway::sim
