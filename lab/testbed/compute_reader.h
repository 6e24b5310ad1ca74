// SPDX-License-Identifier: Apache-2.0
// The `runs:` of units that compute: {synthetic: {...}}, {vgg16: {...}}, {knn: {...}}. Pure.
#pragma once

#include "base/yaml/reader.h"
#include "spec.h"

namespace spillway::lab {

void ReadSynthetic(yaml::Problems& problems, const yaml::Field& field, UnitSpec& unit);
void ReadVgg16(yaml::Problems& problems, const yaml::Field& field, UnitSpec& unit);
void ReadKnn(yaml::Problems& problems, const yaml::Field& field, UnitSpec& unit);

}  // namespace spillway::lab
