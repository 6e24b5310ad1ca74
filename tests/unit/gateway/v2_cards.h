// SPDX-License-Identifier: Apache-2.0
// Models that requests of the Open Inference Protocol are for, in tests and fuzz targets.
#pragma once

#include "gateway/protocol/v2.h"

namespace spillway::gateway {

// The example of the protocol's own text: two inputs, of which one is small integers.
inline ModelCard ProtocolCard() {
  ModelCard card;
  card.name = "mymodel";
  card.inputs = {{"input0", DataType::kU32, {2, 2}}, {"input1", DataType::kBool, {3}}};
  card.outputs = {{"output0", DataType::kF32, {3, 2}}};
  return card;
}

inline ModelCard BatchedCard(int64_t most_rows) {
  ModelCard card;
  card.name = "rows";
  card.inputs = {{"input", DataType::kF32, {-1, 2}}};
  card.outputs = {{"output", DataType::kI8, {-1, 1}}};
  card.most_rows = most_rows;
  return card;
}

}  // namespace spillway::gateway
