// SPDX-License-Identifier: Apache-2.0
// What a request's JSON says of its tensors, apart from their data, checked against the model. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "gateway/protocol/tensor.h"

namespace spillway::gateway {

// Bad input: all errors of requests here are.
tl::unexpected<Error> Wrong(const std::string& text);

// What came, for the message that refuses it: short, whatever it is.
std::string Shown(const nlohmann::json& value);
std::string Shown(const std::vector<int64_t>& shape);
// What the object has under `key`.
std::string Got(const nlohmann::json& from, const char* key);
std::string NamesOf(const std::vector<TensorCard>& cards);

// Which of the model's inputs the entry of `inputs` names.
[[nodiscard]] Result<size_t> InputOf(const ModelCard& model, const nlohmann::json& entry);
// The request's entry for each of the model's inputs, in the model's order.
[[nodiscard]] Result<std::vector<const nlohmann::json*>> FindInputs(const ModelCard& model,
                                                                    const nlohmann::json& request);
// Whether datatype and shape are the card's, and how many rows the shape has.
[[nodiscard]] Result<int64_t> RowsOf(const ModelCard& model, const TensorCard& card,
                                     const nlohmann::json& entry);

}  // namespace spillway::gateway
