// SPDX-License-Identifier: Apache-2.0
// What a client of the gateway sends: a header, then meta of a type.
#include <cstdlib>

#include "gateway/protocol/frame.h"

using namespace spillway::gateway;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FrameHeader header;
  if (size < sizeof(header)) return 0;
  std::memcpy(&header, bytes, sizeof(header));
  const HeaderFault fault = CheckClientHeader(header, 1 << 20);
  if (fault.text.empty() && (header.meta_bytes > kMaxMeta || header.data_bytes > 1 << 20)) std::abort();
  const std::span meta(reinterpret_cast<const std::byte*>(bytes) + sizeof(header), size - sizeof(header));
  InferMeta infer;
  WindowMeta window;
  ResultMeta result;
  if (ReadMeta(meta, infer) && MetaBytes(infer).size() != meta.size()) std::abort();
  if (ReadMeta(meta, window) && MetaBytes(window).size() != meta.size()) std::abort();
  if (ReadMeta(meta, result) && MetaBytes(result).size() != meta.size()) std::abort();
  const std::string again = EncodeFrame(header, {reinterpret_cast<const char*>(meta.data()), meta.size()});
  if (again.size() != size) std::abort();
  return 0;
}
