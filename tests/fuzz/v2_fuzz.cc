// SPDX-License-Identifier: Apache-2.0
// A request of the Open Inference Protocol. The first byte says whether, and where, binary tensors begin. Of
// what is accepted the inputs are as large as the model's card says, and there is an answer to it.
#include <cstdlib>

#include "gateway/v2.h"

using namespace spillway::gateway;

namespace {

constexpr uint64_t kMostBytes = 1 << 16;

ModelCard Fixed() {
  ModelCard card;
  card.name = "fixed";
  card.inputs = {{"input0", DataType::kU32, {2, 2}}, {"input1", DataType::kBool, {3}}};
  card.outputs = {{"output0", DataType::kF32, {3, 2}}};
  return card;
}

ModelCard Batched() {
  ModelCard card;
  card.name = "rows";
  card.inputs = {{"input", DataType::kF32, {-1, 2}}};
  card.outputs = {{"output", DataType::kI8, {-1, 1}}};
  card.most_rows = 64;
  return card;
}

void Read(const ModelCard& card, std::string_view body, std::optional<uint64_t> json_bytes) {
  const auto request = ParseV2Request(card, body, json_bytes, kMostBytes);
  if (!request) {
    if (request.error().message.empty()) std::abort();
    return;
  }
  if (request->rows < 1 || request->rows > card.most_rows) std::abort();
  if (request->input_bytes > kMostBytes) {
    if (!request->inputs.empty()) std::abort();
    return;
  }
  if (request->inputs.size() != card.InputBytes(request->rows)) std::abort();
  const std::vector<std::byte> outputs(card.OutputBytes(request->rows));
  if (!MakeV2Response(card, *request, outputs)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size < 1) return 0;
  const std::string_view body(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  std::optional<uint64_t> json_bytes;
  if (bytes[0] != 0) json_bytes = body.size() * bytes[0] / 250;  // beyond the end, too
  Read(Fixed(), body, json_bytes);
  Read(Batched(), body, json_bytes);
  return 0;
}
