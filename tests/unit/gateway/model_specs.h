// SPDX-License-Identifier: Apache-2.0
// Models as executor.yaml would describe them.
#pragma once

#include "gateway/executor/engine.h"

namespace spillway::gateway {

inline ModelSpec Mlp(std::vector<int64_t> layers, uint64_t seed, int64_t most_rows) {
  ModelSpec spec;
  spec.name = "mlp";
  spec.layers = std::move(layers);
  spec.seed = seed;
  spec.most_rows = most_rows;
  return spec;
}

inline ModelSpec ProductOf(int64_t m, int64_t k, int64_t n) {
  ModelSpec spec;
  spec.name = "product";
  spec.kind = ModelSpec::Kind::kProduct;
  spec.m = m;
  spec.k = k;
  spec.n = n;
  return spec;
}

inline ModelSpec Echo(int64_t row_bytes, int64_t most_rows) {
  ModelSpec spec;
  spec.name = "echo";
  spec.kind = ModelSpec::Kind::kEcho;
  spec.k = row_bytes;
  spec.most_rows = most_rows;
  return spec;
}

}  // namespace spillway::gateway
