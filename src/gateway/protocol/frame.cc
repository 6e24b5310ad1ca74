// SPDX-License-Identifier: Apache-2.0
#include "gateway/protocol/frame.h"

#include <fmt/format.h>

namespace spillway::gateway {

std::string EncodeFrame(FrameHeader header, std::string_view meta) {
  header.meta_bytes = static_cast<uint32_t>(meta.size());
  std::string frame(reinterpret_cast<const char*>(&header), sizeof(header));
  frame += meta;
  return frame;
}

HeaderFault CheckClientHeader(const FrameHeader& header, uint64_t most_data) {
  if (header.magic != kFrameMagic) return {"not a frame: wrong magic number", true};
  if (header.version != kFrameVersion)
    return {fmt::format("frame of version {}, expected {}", header.version, kFrameVersion), true};
  if (header.meta_bytes > kMaxMeta)
    return {fmt::format("{} bytes of meta, expected at most {}", header.meta_bytes, kMaxMeta), true};
  const auto type = static_cast<FrameType>(header.type);
  const bool data = type == FrameType::kInfer;
  if (header.data_bytes > most_data)
    return {fmt::format("{} bytes of inputs, expected at most {}", header.data_bytes, most_data), true,
            Status::kTooLarge};
  if (type != FrameType::kHello && type != FrameType::kDescribe && type != FrameType::kInfer &&
      type != FrameType::kCancel && type != FrameType::kOpenWindow)
    return {fmt::format("unexpected frame type {}", header.type), false};
  if (!data && header.data_bytes != 0) return {"a frame of this type has no data", false};
  return {};
}

}  // namespace spillway::gateway
