// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/loaded_model.h"

#include "gateway/executor/mlp.h"

namespace spillway::gateway {

using Kind = ModelSpec::Kind;

std::vector<LoadedModel> LoadModels(const std::vector<ModelSpec>& specs) {
  std::vector<LoadedModel> models;
  for (const ModelSpec& spec : specs) {
    LoadedModel model{spec, CardOf(spec), {}};
    for (uint32_t i = 0; spec.kind == Kind::kMlp && i + 1 < spec.layers.size(); i++)
      model.weights.push_back(MlpWeights(spec.seed, i, spec.layers[i], spec.layers[i + 1]));
    models.push_back(std::move(model));
  }
  return models;
}

}  // namespace spillway::gateway
