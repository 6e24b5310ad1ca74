// SPDX-License-Identifier: Apache-2.0
// The models that engines know how to run, as files describe them. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/yaml/reader.h"
#include "gateway/protocol/tensor.h"

namespace spillway::gateway {

// An entry of `models` in executor.yaml.
struct ModelSpec {
  enum class Kind { kEcho, kMlp, kProduct };
  std::string name;
  Kind kind = Kind::kMlp;
  std::vector<int64_t> layers;  // mlp: widths, from the input's to the output's
  int64_t m = 1, k = 1, n = 1;  // product: [m, k] x [k, n]; echo: k bytes a row
  uint64_t seed = 1;            // of the mlp's weights
  int64_t most_rows = 64;
};
ModelCard CardOf(const ModelSpec& spec);
// Whether requests of its most rows fit into a cell of so many bytes. Errors: kBadInput, what was expected.
[[nodiscard]] Result<void> CheckCell(const ModelCard& card, uint64_t input_bytes, uint64_t output_bytes);

// Reads one, and tells of what does not fit.
ModelSpec ReadModelSpec(yaml::Problems& problems, const yaml::Field& field);
// What ReadModelSpec takes.
nlohmann::json ToJson(const ModelSpec& spec);

}  // namespace spillway::gateway
