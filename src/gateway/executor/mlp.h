// SPDX-License-Identifier: Apache-2.0
// The weights of the models that executors offer: numbers that look random and are not, so that whoever knows
// the seed can check the results. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace spillway::gateway {

// Row-major [inputs, outputs] of layer `layer`, uniform, scaled to keep the outputs' size.
std::vector<float> MlpWeights(uint64_t seed, uint32_t layer, int64_t inputs, int64_t outputs);

}  // namespace spillway::gateway
