// SPDX-License-Identifier: Apache-2.0
// A model with its weights in the host's memory: what every engine starts from. Pure.
#pragma once

#include <vector>

#include "gateway/executor/engine.h"

namespace spillway::gateway {

struct LoadedModel {
  ModelSpec spec;
  ModelCard card;
  std::vector<std::vector<float>> weights;  // mlp: by layer, row-major [inputs, outputs]
};

std::vector<LoadedModel> LoadModels(const std::vector<ModelSpec>& specs);

}  // namespace spillway::gateway
