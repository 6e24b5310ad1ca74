// SPDX-License-Identifier: Apache-2.0
// A request of the Open Inference Protocol. The first byte says whether, and where, binary tensors begin. Of
// what is accepted the inputs are as large as the model's card says, and there is an answer to it.
#include <cstdlib>

#include "gateway/protocol/v2.h"
#include "tests/unit/gateway/v2_cards.h"

using namespace spillway::gateway;

namespace {

constexpr uint64_t kMaxBytes = 1 << 16;

void Read(const ModelCard& card, std::string_view body, std::optional<uint64_t> json_bytes) {
  const auto request = ParseV2Request(card, body, json_bytes, kMaxBytes);
  if (!request) {
    if (request.error().message.empty()) std::abort();
    return;
  }
  if (request->rows < 1 || request->rows > card.most_rows) std::abort();
  if (request->input_bytes > kMaxBytes) {
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
  Read(ProtocolCard(), body, json_bytes);
  Read(BatchedCard(64), body, json_bytes);
  return 0;
}
