// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/mlp.h"

#include <cmath>
#include <random>

namespace spillway::gateway {

std::vector<float> MlpWeights(uint64_t seed, uint32_t layer, int64_t inputs, int64_t outputs) {
  // The engine's numbers are the standard's, the same anywhere; a distribution's would not be.
  std::mt19937_64 random(seed * 1000 + layer);
  const auto scale = static_cast<float>(std::sqrt(3.0 / static_cast<double>(inputs)) * 0x1p-31);
  std::vector<float> weights(static_cast<size_t>(inputs * outputs));
  for (float& weight : weights) weight = static_cast<float>(static_cast<int32_t>(random() >> 32)) * scale;
  return weights;
}

}  // namespace spillway::gateway
