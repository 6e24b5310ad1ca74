// SPDX-License-Identifier: Apache-2.0
// The Open Inference Protocol, version 2, as REST: JSON, and the binary tensor extension. Requests become the
// bytes that slices read (tensor.h), and those that slices write become responses. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/protocol/tensor.h"

namespace spillway::gateway {

// A request that fits its model.
struct V2Request {
  std::string id;
  int64_t rows = 1;
  uint64_t input_bytes = 0;
  std::vector<std::byte> inputs;  // as tensor.h lays them; none, and nothing else was read, where too large
  std::optional<std::chrono::microseconds> timeout;  // parameters.timeout
  // What it wants back, in this order, each as binary or as JSON.
  struct Output {
    size_t index;
    bool binary;
  };
  std::vector<Output> outputs;
};

// `json_bytes`: Inference-Header-Content-Length, where the JSON ends and binary tensors begin; nullopt: all
// of the body is JSON. Inputs of more than `most_bytes` are not read: `input_bytes` says how many they are.
// kBadInput names the tensor and what was expected.
[[nodiscard]] Result<V2Request> ParseV2Request(const ModelCard& model, std::string_view body,
                                               std::optional<uint64_t> json_bytes,
                                               uint64_t most_bytes = uint64_t{1} << 40);

// Bytes that its answer takes at most, but for binary outputs.
[[nodiscard]] uint64_t MostAnswerText(const ModelCard& model, const V2Request& request);

struct V2Response {
  std::string body;
  std::optional<uint64_t> json_bytes;  // set when binary tensors follow
};
// An error: `outputs` are not the model's for so many rows, or a JSON output has a value that JSON has no
// word for (infinite, or not a number).
[[nodiscard]] Result<V2Response> MakeV2Response(const ModelCard& model, const V2Request& request,
                                                std::span<const std::byte> outputs);

// What asks for the index of the model repository, `body`: whether models that are ready alone are wanted.
[[nodiscard]] Result<bool> ParseV2IndexRequest(const std::string& body);
nlohmann::json V2IndexEntry(const ModelCard& model, bool is_ready);

nlohmann::json V2ModelMetadata(const ModelCard& model);
nlohmann::json V2ServerMetadata(const std::string& version);
std::string V2Error(std::string_view message);

}  // namespace spillway::gateway
