// SPDX-License-Identifier: Apache-2.0
// Frames as a client without our library sends and reads them.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "gateway/protocol/frame.h"

namespace spillway::gateway {

inline std::string HelloFrame() {
  FrameHeader header;
  header.type = static_cast<uint8_t>(FrameType::kHello);
  return EncodeFrame(header, "alice\n");
}

inline std::string DescribeFrame(uint64_t id, const std::string& model) {
  FrameHeader header;
  header.type = static_cast<uint8_t>(FrameType::kDescribe);
  header.id = id;
  return EncodeFrame(header, model);
}

inline std::string InferFrame(uint64_t id, const std::string& data, uint32_t rows = 1, uint32_t model = 0) {
  FrameHeader header;
  header.type = static_cast<uint8_t>(FrameType::kInfer);
  header.id = id;
  header.data_bytes = data.size();
  InferMeta infer;
  infer.model = model;
  infer.rows = rows;
  return EncodeFrame(header, MetaBytes(infer)) + data;
}

// All of it; false once the peer has gone.
inline bool SendWhole(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

// False: the peer has gone before.
inline bool ReceiveWhole(int socket, void* into, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = recv(socket, static_cast<char*>(into) + done, bytes - done, MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

struct Frame {
  FrameHeader header;
  std::string meta, data;
  [[nodiscard]] bool Is(FrameType type) const { return header.type == static_cast<uint8_t>(type); }
};

// Of no type where the gateway has gone, or sends what is no frame.
inline Frame ReceiveFrame(int socket) {
  Frame frame;
  if (!ReceiveWhole(socket, &frame.header, sizeof(frame.header)) || frame.header.magic != kFrameMagic)
    return {};
  frame.meta.resize(frame.header.meta_bytes);
  frame.data.resize(frame.header.data_bytes);
  if (!ReceiveWhole(socket, frame.meta.data(), frame.meta.size()) ||
      !ReceiveWhole(socket, frame.data.data(), frame.data.size()))
    return {};
  return frame;
}

}  // namespace spillway::gateway
