// SPDX-License-Identifier: Apache-2.0
// The `runs:` of units that compute: {synthetic: {...}}, {vgg16: {...}}, {knn: {...}}. Pure.
#pragma once

#include "model/reader.h"
#include "spec.h"

namespace spillway::lab {

void ReadSynthetic(model::Problems& problems, const model::Field& field, UnitSpec& unit);
void ReadVgg16(model::Problems& problems, const model::Field& field, UnitSpec& unit);
void ReadKnn(model::Problems& problems, const model::Field& field, UnitSpec& unit);

}  // namespace spillway::lab
