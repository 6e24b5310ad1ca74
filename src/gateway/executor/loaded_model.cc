// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/loaded_model.h"

#include "gateway/executor/mlp.h"

namespace spillway::gateway {

using Kind = ModelSpec::Kind;

ModelCard CardOf(const ModelSpec& spec) {
  ModelCard card;
  card.name = spec.name;
  card.most_rows = spec.most_rows;
  switch (spec.kind) {
    case Kind::kEcho:
      card.platform = "spillway_echo";
      card.inputs = {{"input", DataType::kU8, {-1, spec.k}}};
      card.outputs = {{"output", DataType::kU8, {-1, spec.k}}};
      break;
    case Kind::kProduct:
      card.platform = "spillway_product";
      card.most_rows = 1;
      card.inputs = {{"a", DataType::kF32, {spec.m, spec.k}}, {"b", DataType::kF32, {spec.k, spec.n}}};
      card.outputs = {{"c", DataType::kF32, {spec.m, spec.n}}};
      card.gflop =
          2e-9 * static_cast<double>(spec.m) * static_cast<double>(spec.k) * static_cast<double>(spec.n);
      break;
    case Kind::kMlp:
      card.platform = "spillway_mlp";
      card.inputs = {{"input", DataType::kF32, {-1, spec.layers.front()}}};
      card.outputs = {{"output", DataType::kF32, {-1, spec.layers.back()}}};
      for (size_t i = 0; i + 1 < spec.layers.size(); i++)
        card.gflop_per_row +=
            2e-9 * static_cast<double>(spec.layers[i]) * static_cast<double>(spec.layers[i + 1]);
      break;
  }
  return card;
}

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
