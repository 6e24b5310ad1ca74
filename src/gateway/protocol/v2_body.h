// SPDX-License-Identifier: Apache-2.0
// The JSON of a v2 request, read as it goes by, since anybody may write it: the numbers of `data` become the
// tensor's bytes at once (FP16, BF16: as binary only), and what is kept of the rest is bounded. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "gateway/protocol/tensor.h"

namespace spillway::gateway {

struct V2Body {
  nlohmann::json head;  // the whole object; a list as `data` of an input is an empty one
  std::vector<std::vector<std::byte>>
      data;  // of the model's inputs, where a list told them: as many as its shape says
  std::optional<uint64_t> too_large;  // the inputs would have so many bytes: the rest was not read
};

// At most `most_bytes` of inputs are kept. Errors: kBadInput, at the first thing that is wrong.
[[nodiscard]] Result<V2Body> ReadV2Body(const ModelCard& model, std::string_view text, uint64_t most_bytes);

}  // namespace spillway::gateway
