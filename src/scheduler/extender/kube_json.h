// SPDX-License-Identifier: Apache-2.0
// JSON of Kubernetes: read without trust, keys and quantities as Go's decoders take them. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace spillway::scheduler {

// Bytes that a name has at most in Kubernetes; a namespace, and a label's value.
inline constexpr size_t kMaxName = 253, kMaxLabel = 63;

// kBadInput: no JSON, or nested deeper than any object of Kubernetes (what is nested without end would use up
// the stack of whoever writes it again).
[[nodiscard]] Result<nlohmann::json> ParseKubeJson(std::string_view text);

// object[key]; nullptr where that is no object, or the key is absent or null.
[[nodiscard]] const nlohmann::json* Find(const nlohmann::json& object, std::string_view key);
// The same with any letters' case: Go's decoder takes "nodenames" for NodeNames, and old schedulers send it.
[[nodiscard]] const nlohmann::json* FindAnyCase(const nlohmann::json& object, std::string_view key);
// "" where there is no such text.
[[nodiscard]] std::string TextAt(const nlohmann::json& object, std::string_view key);

// "500m" is 0.5, "2Gi" 2147483648; a bare number too. nullopt: no quantity, or less than 0.
[[nodiscard]] std::optional<double> ParseQuantity(const nlohmann::json& value);

}  // namespace spillway::scheduler
